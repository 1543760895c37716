/* Preloaded into a runner: writes down everything that it changes below a directory, in order, so that the disk of a power cut
 * can be built from it. What it says on its standard output goes into the same order.
 *
 * POWER_ROOT is the directory, POWER_LOG the file of the record. One entry is: kind (1 byte), padding (3), length of the name (4),
 * number of the file (8), offset (8), length of the data (8), then name and data.
 *
 * An entry is made when the call has returned: of what is not in the record yet, nobody knows whether it reached the disk.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 4096

struct entry {
    char kind, padding[3];
    uint32_t name_length;
    uint64_t file, offset, data_length;
};

static uint64_t watched[FILES]; /* descriptor -> number of its file, 0 where it is none of ours */
static const char *root;
static size_t root_length;
static int record = -1;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("POWER_LOG");
    root = getenv("POWER_ROOT");
    if (root == NULL || path == NULL)
        return;
    root = strdup(root);
    root_length = strlen(root);
    record = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    unsetenv("LD_PRELOAD"); /* the commands that it runs are not watched */
}

static int ours(const char *path)
{
    return record >= 0 && path != NULL && strncmp(path, root, root_length) == 0 && path[root_length] == '/';
}

static void note(char kind, uint64_t file, const char *name, uint64_t offset, const void *data, uint64_t length)
{
    struct entry entry = {kind, {0}, (uint32_t)strlen(name), file, offset, length};
    struct iovec parts[3] = {{&entry, sizeof entry}, {(void *)name, entry.name_length}, {(void *)data, length}};
    int before = errno;
    if (record < 0)
        return;
    pthread_mutex_lock(&order);
    if (writev(record, parts, 3) < 0)
        abort(); /* a record with holes proves nothing */
    pthread_mutex_unlock(&order);
    errno = before;
}

static uint64_t of(int fd)
{
    return fd >= 0 && fd < FILES ? watched[fd] : 0;
}

static int opened(int fd, const char *path, int flags, int was_there)
{
    struct stat status;
    if (fd < 0 || fd >= FILES)
        return fd;
    watched[fd] = 0;
    if (!ours(path) || fstat(fd, &status) != 0)
        return fd;
    if (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode))
        watched[fd] = status.st_ino;
    if (S_ISREG(status.st_mode) && !was_there)
        note('c', status.st_ino, path + root_length + 1, 0, NULL, 0);
    else if (flags & O_TRUNC)
        note('t', status.st_ino, "", 0, NULL, 0);
    return fd;
}

#define OPENS(name)                                                                                                              \
    int name(const char *path, int flags, ...)                                                                                   \
    {                                                                                                                            \
        mode_t mode = 0;                                                                                                         \
        int was_there = ours(path) && access(path, F_OK) == 0;                                                                   \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                                                     \
            va_list more;                                                                                                        \
            va_start(more, flags);                                                                                               \
            mode = va_arg(more, mode_t);                                                                                         \
            va_end(more);                                                                                                        \
        }                                                                                                                        \
        return opened(REAL(name)(path, flags, mode), path, flags, was_there);                                                    \
    }
OPENS(open)
OPENS(open64)

int close(int fd)
{
    if (fd >= 0 && fd < FILES)
        watched[fd] = 0;
    return REAL(close)(fd);
}

static ssize_t wrote(int fd, const void *data, ssize_t length, off_t at)
{
    if (length > 0 && of(fd))
        note('w', of(fd), "", at, data, length);
    else if (length > 0 && fd == STDOUT_FILENO)
        note('s', 0, "", 0, data, length);
    return length;
}

ssize_t write(int fd, const void *data, size_t length)
{
    off_t at = of(fd) ? lseek(fd, 0, SEEK_CUR) : 0;
    return wrote(fd, data, REAL(write)(fd, data, length), at);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at)
{
    return wrote(fd, data, REAL(pwrite)(fd, data, length, at), at);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at)
{
    return wrote(fd, data, REAL(pwrite64)(fd, data, length, at), at);
}

static int cut(int fd, int failed, off_t length)
{
    if (!failed && of(fd))
        note('t', of(fd), "", length, NULL, 0);
    return failed;
}

int ftruncate(int fd, off_t length)
{
    return cut(fd, REAL(ftruncate)(fd, length), length);
}

int ftruncate64(int fd, off64_t length)
{
    return cut(fd, REAL(ftruncate64)(fd, length), length);
}

static int synced(int fd, int failed)
{
    if (!failed && of(fd))
        note('f', of(fd), "", 0, NULL, 0);
    return failed;
}

int fsync(int fd)
{
    return synced(fd, REAL(fsync)(fd));
}

int fdatasync(int fd)
{
    return synced(fd, REAL(fdatasync)(fd));
}

int unlink(const char *path)
{
    int failed = REAL(unlink)(path);
    if (!failed && ours(path))
        note('u', 0, path + root_length + 1, 0, NULL, 0);
    return failed;
}

static int named(char kind, int failed, const char *from, const char *to)
{
    if (!failed && ours(from) && ours(to))
        note(kind, 0, from + root_length + 1, 0, to + root_length + 1, strlen(to + root_length + 1));
    return failed;
}

int rename(const char *from, const char *to)
{
    return named('r', REAL(rename)(from, to), from, to);
}

int link(const char *from, const char *to)
{
    return named('l', REAL(link)(from, to), from, to);
}
