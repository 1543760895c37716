/* Preloaded into a runner: its n-th call of one kind on a file below a directory fails, and so do some that follow.
 *
 * FAIL_ROOT is the directory, FAIL_CALL one of write, fsync, ftruncate and open, FAIL_AT the number of the first call that fails,
 * FAIL_TIMES how many fail, FAIL_ERRNO how, and FAIL_LOG a file that gets one byte for each.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 4096

static char watched[FILES];
static const char *root, *call;
static size_t root_length;
static long first, times;
static int number, notes = -1;
static atomic_long count;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long figure(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : atol(text);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAIL_LOG");
    if (path == NULL || getenv("FAIL_ROOT") == NULL || getenv("FAIL_CALL") == NULL)
        return;
    root = strdup(getenv("FAIL_ROOT"));
    root_length = strlen(root);
    call = strdup(getenv("FAIL_CALL"));
    first = figure("FAIL_AT");
    times = figure("FAIL_TIMES");
    number = (int)figure("FAIL_ERRNO");
    notes = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    unsetenv("LD_PRELOAD"); /* the commands that it runs succeed */
}

static int ours(const char *path)
{
    return notes >= 0 && path != NULL && strncmp(path, root, root_length) == 0 && path[root_length] == '/';
}

static int of(int fd)
{
    return fd >= 0 && fd < FILES && watched[fd];
}

static int fails(const char *kind, int concerned)
{
    long at;
    if (!concerned || strcmp(kind, call) != 0)
        return 0;
    at = ++count;
    if (at < first || at >= first + times)
        return 0;
    if (REAL(write)(notes, "x", 1) != 1)
        abort();
    errno = number;
    return 1;
}

static int opened(int fd, const char *path)
{
    struct stat status;
    if (fd >= 0 && fd < FILES)
        watched[fd] = ours(path) && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    return fd;
}

#define OPENS(name)                                                                                                              \
    int name(const char *path, int flags, ...)                                                                                   \
    {                                                                                                                            \
        mode_t mode = 0;                                                                                                         \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                                                     \
            va_list more;                                                                                                        \
            va_start(more, flags);                                                                                               \
            mode = va_arg(more, mode_t);                                                                                         \
            va_end(more);                                                                                                        \
        }                                                                                                                        \
        return fails("open", ours(path)) ? -1 : opened(REAL(name)(path, flags, mode), path);                                     \
    }
OPENS(open)
OPENS(open64)

int close(int fd)
{
    if (fd >= 0 && fd < FILES)
        watched[fd] = 0;
    return REAL(close)(fd);
}

ssize_t write(int fd, const void *data, size_t length)
{
    return fails("write", of(fd)) ? -1 : REAL(write)(fd, data, length);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at)
{
    return fails("write", of(fd)) ? -1 : REAL(pwrite)(fd, data, length, at);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at)
{
    return fails("write", of(fd)) ? -1 : REAL(pwrite64)(fd, data, length, at);
}

int ftruncate(int fd, off_t length)
{
    return fails("ftruncate", of(fd)) ? -1 : REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return fails("ftruncate", of(fd)) ? -1 : REAL(ftruncate64)(fd, length);
}

int fsync(int fd)
{
    return fails("fsync", of(fd)) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return fails("fsync", of(fd)) ? -1 : REAL(fdatasync)(fd);
}
