"""Statements of the queue."""

from __future__ import annotations

GET_META = "SELECT value FROM meta WHERE key = ?"
ALL_META = "SELECT key, value FROM meta"
SET_META = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
DROP_META = "DELETE FROM meta WHERE key = ?"
NEW_FILE = "INSERT INTO meta (key, value) VALUES ('file', lower(hex(randomblob(16)))), ('inode', ?)"

PUT = "INSERT INTO due (member, at) VALUES (?, ?) ON CONFLICT (member) DO UPDATE SET at = excluded.at"
PUT_ALL = (
    "INSERT INTO due (member, at) SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?) WHERE true "
    "ON CONFLICT (member) DO UPDATE SET at = excluded.at"
)
IN_FLIGHT = "SELECT member FROM inflight WHERE member IN (SELECT value FROM json_each(?))"
IS_IN_FLIGHT = "SELECT 1 FROM inflight WHERE member = ?"

NEXT_DUE = "SELECT member, at, held_since FROM due WHERE at <= ? ORDER BY at, member LIMIT ?"
DROP_DUE = "DELETE FROM due WHERE member = ?"
DROP_ALL_DUE = "DELETE FROM due WHERE member IN (SELECT value FROM json_each(?))"
HOLD = "INSERT OR REPLACE INTO inflight (member, at, owner, fence, due_at, held_since) VALUES (?, ?, ?, ?, ?, ?)"
HOLD_ALL = (
    "INSERT OR REPLACE INTO inflight (member, at, owner, fence, due_at, held_since) "
    "SELECT json_extract(value, '$[0]'), ?, ?, json_extract(value, '$[1]'), json_extract(value, '$[2]'), "
    "json_extract(value, '$[3]') FROM json_each(?)"
)
CLAIMED_SINCE = "SELECT member, due_at, fence, held_since FROM inflight WHERE owner = ? AND fence >= ? ORDER BY fence"

ACK = "DELETE FROM inflight WHERE member = ? AND fence = ?"
HELD_AMONG = (
    "SELECT count(*) FROM json_each(?) k CROSS JOIN inflight i ON i.member = json_extract(k.value, '$[0]') "
    "AND i.fence = json_extract(k.value, '$[1]')"
)
ACK_ALL = "DELETE FROM inflight WHERE member IN (SELECT json_extract(value, '$[0]') FROM json_each(?))"
ACK_PUT_BACK = "DELETE FROM due WHERE member = ? AND fence = ?"
EXTEND = "UPDATE inflight SET at = ? WHERE member = ? AND fence = ?"
TAKE_BACK = "DELETE FROM due WHERE member = ? AND fence = ? RETURNING at, held_since"
RELEASE = "DELETE FROM inflight WHERE member = ? AND fence = ? RETURNING held_since"
PUT_BACK = "INSERT OR REPLACE INTO due (member, at, fence, held_since) VALUES (?, ?, ?, ?)"

EXPIRED = "SELECT member, fence, held_since FROM inflight WHERE at <= ? ORDER BY at, member LIMIT ?"
NOT_SPARED = (
    "SELECT member, NULL, held_since FROM inflight WHERE member NOT IN (SELECT value FROM json_each(?)) ORDER BY member LIMIT ?"
)
DROP_HELD = "DELETE FROM inflight WHERE member = ?"

EARLIEST = "SELECT at FROM due ORDER BY at, member LIMIT 1"
CONTAINS = "SELECT value FROM json_each(?) WHERE value IN (SELECT member FROM due) OR value IN (SELECT member FROM inflight)"
SCAN = (
    "SELECT * FROM (SELECT member, at, 0, NULL, NULL, held_since FROM due WHERE member > ?1 ORDER BY member LIMIT ?2) "
    "UNION ALL "
    "SELECT * FROM (SELECT member, at, 1, owner, fence, held_since FROM inflight WHERE member > ?1 ORDER BY member LIMIT ?2) "
    "ORDER BY 1 LIMIT ?2"
)
PEEK = "SELECT member, at, 0, NULL, NULL, held_since FROM due ORDER BY at, member LIMIT ?"
COUNTS = "SELECT (SELECT count(*) FROM due), (SELECT count(*) FROM inflight)"
READABLE = "SELECT 1 FROM due LIMIT 1"
