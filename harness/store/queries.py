"""The SQL of every read and of every derived write, as portable text with `:name` parameters, run through the DB-API.

What only one of the two databases understands is a pair, indexed by whether it is PostgreSQL.
"""

from __future__ import annotations

SCHEMA_VERSION = "0010"
"""The newest migration's revision; versions sort as text."""

HAS_TABLES = (
    "SELECT count(*) AS n FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    "SELECT count(*) AS n FROM information_schema.tables WHERE table_schema = current_schema()",
)
HAS_VERSION = (
    "SELECT count(*) AS n FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'",
    "SELECT count(*) AS n FROM information_schema.tables "
    "WHERE table_schema = current_schema() AND table_name = 'alembic_version'",
)
VERSION = "SELECT version_num FROM alembic_version"
# Both versions at once; it fails where a table is missing.
VERSIONS = """
SELECT (SELECT version_num FROM alembic_version), (SELECT value FROM store_info WHERE key = 'standings')
"""
INFO = "SELECT value FROM store_info WHERE key = :key"
FORGET_INFO = "DELETE FROM store_info WHERE key = :key"
SET_INFO = "INSERT INTO store_info (key, value) VALUES (:key, :value)"

RUNNING = "SELECT id, host, pid, process_start FROM evaluations WHERE status = 'running'"
MARK_INTERRUPTED = """
UPDATE evaluations SET status = 'interrupted', reason_code = 'interrupted', reason_message = :message
WHERE id = :id AND status = 'running'
"""

# What comes before what is a matter of time, and of the id among equals: imported submissions are older than their ids.
# The same text at the same moment is the same submission, not one before it.
_SUBMISSION = """
SELECT s.id, s.leaderboard, s.user_name, s.file_name, s.source_sha256, s.created_at, s.gpus, s.origin, s.published,
       (SELECT p.id FROM submissions p
        WHERE p.leaderboard = s.leaderboard AND p.user_name = s.user_name
          AND (p.created_at, p.id) < (s.created_at, s.id)
          AND (p.created_at <> s.created_at OR p.source_sha256 <> s.source_sha256)
        ORDER BY p.created_at DESC, p.id DESC LIMIT 1) AS previous
FROM submissions s
"""
_NEWEST = " ORDER BY s.created_at DESC, s.id DESC LIMIT 1"
SUBMISSION = _SUBMISSION + "WHERE s.id = :id"
SOURCE = "SELECT text FROM sources WHERE sha256 = :sha256"
HAS_LEADERBOARD = "SELECT 1 FROM submissions WHERE leaderboard = :leaderboard LIMIT 1"
# A step through the index for each board, since DISTINCT would read every submission.
_BOARDS = """
WITH RECURSIVE boards(name) AS (
    SELECT min(leaderboard) FROM submissions
    UNION ALL
    SELECT (SELECT min(leaderboard) FROM submissions WHERE leaderboard > boards.name)
    FROM boards WHERE boards.name IS NOT NULL
)
"""
LEADERBOARDS = _BOARDS + "SELECT name AS leaderboard FROM boards WHERE name IS NOT NULL"
LAST_SUBMISSION_ID = "SELECT max(id) AS id FROM submissions"
# Of all boards: the newest of each, and of these the newest.
LATEST = f"""
{_BOARDS}
{_SUBMISSION}
WHERE s.id IN (
    SELECT (SELECT l.id FROM submissions l WHERE l.leaderboard = boards.name AND l.user_name = :user
            ORDER BY l.created_at DESC, l.id DESC LIMIT 1)
    FROM boards
)
{_NEWEST}
"""
LATEST_ON_BOARD = _SUBMISSION + "WHERE s.user_name = :user AND s.leaderboard = :leaderboard" + _NEWEST

_EVALUATION = "SELECT e.*, s.leaderboard, s.user_name FROM evaluations e JOIN submissions s ON s.id = e.submission_id "
EVALUATION = _EVALUATION + "WHERE e.id = :id"
EVALUATIONS = _EVALUATION + "WHERE e.submission_id = :submission_id ORDER BY e.id"
CASES = "SELECT * FROM case_results WHERE evaluation_id = :evaluation_id ORDER BY id"

NOTES = "SELECT id, created_at, text FROM notes WHERE submission_id = :submission_id ORDER BY id"
TAGGED = """
SELECT s.id FROM tags t JOIN submissions s ON s.id = t.submission_id
WHERE t.tag = :tag AND s.user_name = :user ORDER BY s.id
"""
TAGS = "SELECT tag FROM tags WHERE submission_id = :submission_id ORDER BY tag"
TECHNIQUES = "SELECT findings FROM techniques WHERE source_sha256 = :sha256 AND extractor_version = :version"

COMPILATIONS = (
    "SELECT report FROM compilations WHERE source_sha256 = :sha256 AND leaderboard = :leaderboard ORDER BY architecture"
)
DELETE_COMPILATION = """
DELETE FROM compilations
WHERE source_sha256 = :source_sha256 AND leaderboard = :leaderboard AND architecture = :architecture
"""
HAS_SOURCE = "SELECT 1 AS found FROM sources WHERE sha256 = :sha256"

_SUMMARY_COLUMNS = """
       e.id AS evaluation_id, e.mode, e.protocol, e.grid, e.device_kind, e.device_name, e.isolation, e.interpreted,
       coalesce(e.benchmarks, '') AS benchmarks,
       e.status, e.reason_code, e.reason_message, e.rank_reason_code, e.rank_reason_message,
       e.score_ns, e.score_low_ns, e.score_high_ns, e.rank_then
"""
_HISTORY = f"""
SELECT s.id, s.leaderboard, s.user_name, s.file_name, s.source_sha256, s.created_at, {_SUMMARY_COLUMNS}
FROM {{boards}} submissions s LEFT JOIN evaluations e ON e.submission_id = s.id
WHERE s.user_name = :user AND s.leaderboard = {{board}}
ORDER BY s.created_at, s.id, e.id
"""
HISTORY = _BOARDS + _HISTORY.format(boards="boards CROSS JOIN", board="boards.name")
HISTORY_OF_BOARD = _HISTORY.format(boards="", board=":leaderboard")

# The oldest first, by their own time: an import brings calibrations that are older than their ids.
NOISES = "SELECT * FROM noise_calibrations ORDER BY created_at, id"
NOISES_OF_CLASS = """
SELECT * FROM noise_calibrations
WHERE device_name = :device_name AND leaderboard = :leaderboard AND grid = :grid AND protocol = :protocol
ORDER BY created_at, id
"""
DEVICE_CALIBRATION = """
SELECT * FROM device_calibrations WHERE device_name = :device ORDER BY created_at DESC, id DESC LIMIT 1
"""

# What PostgreSQL has to know of the columns that rows are found by: of all columns takes twice as long.
ANALYZE = """
ANALYZE sources (sha256), submissions (id, leaderboard, user_name, created_at, source_sha256, origin),
        evaluations (id, submission_id, status, mode, score_ns), case_results (evaluation_id), rank_classes,
        scored_runs (class_id, user_name, source_sha256, submission_id, evaluation_id, score_ns, finished_at),
        user_standings, notes, tags, techniques (source_sha256), compilations (source_sha256)
"""

# The derived tables: see harness.store.standings.
_SCORED = """
SELECT e.id AS evaluation_id, s.id AS submission_id, s.leaderboard, s.user_name, s.source_sha256,
       e.grid, e.device_kind, e.device_name, e.protocol, e.isolation, e.interpreted, e.rank_reason_code,
       coalesce(e.benchmarks, '') AS benchmarks,
       coalesce(e.finished_at, e.started_at) AS finished_at, e.score_ns, e.score_low_ns, e.score_high_ns
FROM evaluations e JOIN submissions s ON s.id = e.submission_id
WHERE e.status = 'passed' AND e.mode = 'leaderboard' AND e.score_ns IS NOT NULL AND
"""
SCORED_EVALUATION = _SCORED + "e.id = :id"
SCORED_EVALUATIONS = _SCORED + "e.id > :after ORDER BY e.id LIMIT :limit"

CLASS_ID = """
SELECT id FROM rank_classes
WHERE leaderboard = :leaderboard AND grid = :grid AND device_kind = :device_kind AND device_name = :device_name
  AND protocol = :protocol AND isolation = :isolation AND benchmarks = :benchmarks
  AND unranked = :unranked
"""
ADD_CLASS = """
INSERT INTO rank_classes (leaderboard, grid, device_kind, device_name, protocol, isolation, benchmarks,
                          unranked, last_evaluation_id, stale)
VALUES (:leaderboard, :grid, :device_kind, :device_name, :protocol, :isolation, :benchmarks, :unranked,
        :last, :stale)
"""
MOVE_CLASS = "UPDATE rank_classes SET last_evaluation_id = :last WHERE id = :class_id AND last_evaluation_id < :last"
SET_LAST_OF_CLASS = """
UPDATE rank_classes
SET last_evaluation_id = coalesce((SELECT max(evaluation_id) FROM scored_runs WHERE class_id = :class_id), 0)
WHERE id = :class_id
"""
DELETE_EMPTY_CLASS = "DELETE FROM rank_classes WHERE id = :class_id AND last_evaluation_id = 0"
SET_STALE = "UPDATE rank_classes SET stale = (1 = 1) WHERE id = :class_id"
SET_FRESH = "UPDATE rank_classes SET stale = (1 = 0) WHERE id = :class_id"
STALE_CLASSES = "SELECT id FROM rank_classes WHERE stale ORDER BY id"
CLASSES = """
SELECT id, stale, leaderboard, grid, device_kind, device_name, protocol, isolation, benchmarks, unranked
FROM rank_classes
"""
EVERY_CLASS = "SELECT * FROM rank_classes ORDER BY id"
CLASSES_OF_BOARD = "SELECT * FROM rank_classes WHERE leaderboard = :leaderboard ORDER BY last_evaluation_id DESC, id"

CLASSES_OF_SUBMISSION = """
SELECT DISTINCT r.class_id, r.user_name
FROM submissions s
JOIN rank_classes c ON c.leaderboard = s.leaderboard
JOIN scored_runs r ON r.class_id = c.id AND r.user_name = s.user_name AND r.source_sha256 = s.source_sha256
WHERE s.id = :id AND r.submission_id = s.id
"""
DELETE_RUNS = """
DELETE FROM scored_runs WHERE class_id = :class_id AND user_name = :user AND submission_id = :submission_id
"""
DELETE_RUN = """
DELETE FROM scored_runs
WHERE class_id = :class_id AND user_name = :user_name AND source_sha256 = :source_sha256
  AND evaluation_id = :evaluation_id
"""
_RUN = "source_sha256, evaluation_id, submission_id, score_ns, score_low_ns, score_high_ns"
RUNS_OF_USER = f"""
SELECT {_RUN} FROM scored_runs WHERE class_id = :class_id AND user_name = :user ORDER BY source_sha256, evaluation_id
"""
RUNS_OF_CLASS = f"""
SELECT user_name, {_RUN} FROM scored_runs WHERE class_id = :class_id ORDER BY user_name, source_sha256, evaluation_id
"""
# The runs of the sources with the fastest single runs; before them how many sources there are, and this one's fastest.
_OF_RUNS = ", ".join(f"r.{name}" for name in ("user_name", *_RUN.split(", ")))
RUNS_OF_FASTEST = f"""
WITH fastest AS (
    SELECT user_name, source_sha256, min(score_ns) AS least, count(*) OVER () AS sources
    FROM scored_runs WHERE class_id = :class_id GROUP BY user_name, source_sha256 ORDER BY least LIMIT :limit
)
SELECT f.sources, f.least, {_OF_RUNS}
FROM fastest f JOIN scored_runs r
  ON r.class_id = :class_id AND r.user_name = f.user_name AND r.source_sha256 = f.source_sha256
ORDER BY r.user_name, r.source_sha256, r.evaluation_id
"""
RUNS_BEFORE = f"""
SELECT user_name, {_RUN} FROM scored_runs WHERE class_id = :class_id AND finished_at < :moment
ORDER BY user_name, source_sha256, evaluation_id
"""
COUNT_RUNS = "SELECT count(*) FROM scored_runs WHERE class_id = :class_id"
DELETE_STANDING = "DELETE FROM user_standings WHERE class_id = :class_id AND user_name = :user"
DELETE_STANDINGS = "DELETE FROM user_standings WHERE class_id = :class_id"
STANDING_SCORES = "SELECT user_name, score_ns FROM user_standings WHERE class_id = :class_id ORDER BY score_ns"
STANDINGS = """
SELECT u.user_name, u.submission_id, u.evaluation_id, u.score_ns, u.score_low_ns, u.score_high_ns, u.runs,
       s.source_sha256, s.file_name, s.created_at
FROM user_standings u JOIN submissions s ON s.id = u.submission_id
WHERE u.class_id = :class_id ORDER BY u.score_ns, u.evaluation_id LIMIT :limit
"""
ENTRIES = """
SELECT r.user_name, r.submission_id, r.evaluation_id, r.score_ns, r.score_low_ns, r.score_high_ns, 1 AS runs,
       r.source_sha256, s.file_name, s.created_at
FROM scored_runs r JOIN submissions s ON s.id = r.submission_id WHERE r.class_id = :class_id
"""
COUNT_STANDINGS = "SELECT count(*), coalesce(sum(all_runs), 0) FROM user_standings WHERE class_id = :class_id"
STANDING_OF_USER = """
SELECT score_ns, last_evaluation_id FROM user_standings WHERE class_id = :class_id AND user_name = :user
"""
BEST_OF_USER = "SELECT submission_id, score_ns FROM user_standings WHERE class_id = :class_id AND user_name = :user"
# How many are faster by more than δ (`factor` is 1 + δ), and how many there are; the first condition is the index's.
PLACES = """
SELECT u.class_id,
       (SELECT count(*) FROM user_standings o
        WHERE o.class_id = u.class_id AND o.score_ns < u.score_ns AND o.score_ns * :factor < u.score_ns),
       (SELECT count(*) FROM user_standings o WHERE o.class_id = u.class_id)
FROM user_standings u WHERE u.user_name = :user AND u.class_id IN ({class_ids})
"""
SET_RANK_THEN = "UPDATE evaluations SET rank_then = :rank WHERE id = :id"
DERIVED_CONTENTS = (
    """
    SELECT 'class', leaderboard, grid, device_kind, device_name, protocol, isolation, benchmarks, unranked,
           last_evaluation_id
    FROM rank_classes WHERE NOT stale
    """,
    """
    SELECT 'run', c.leaderboard, c.grid, c.device_kind, c.device_name, c.protocol, c.isolation, c.benchmarks,
           c.unranked, r.user_name, r.source_sha256, r.evaluation_id, r.submission_id, r.finished_at,
           r.score_ns, r.score_low_ns, r.score_high_ns
    FROM scored_runs r JOIN rank_classes c ON c.id = r.class_id
    """,
    """
    SELECT 'standing', c.leaderboard, c.grid, c.device_kind, c.device_name, c.protocol, c.isolation, c.benchmarks,
           c.unranked, u.user_name, u.submission_id, u.evaluation_id, u.score_ns, u.score_low_ns, u.score_high_ns,
           u.runs, u.all_runs, u.last_evaluation_id
    FROM user_standings u JOIN rank_classes c ON c.id = u.class_id
    """,
)

# Reading everything, page by page: see harness.transfer.
PAGE = """
SELECT s.*, c.text FROM submissions s JOIN sources c ON c.sha256 = s.source_sha256
WHERE s.id > :after {filters} ORDER BY s.id LIMIT :limit
"""
CALIBRATIONS_PAGE = "SELECT * FROM {table} WHERE id > :after {filters} ORDER BY id LIMIT :limit"
ONLY_OF_BOARD = "AND leaderboard = :leaderboard"
ONLY_BOARD = "AND s.leaderboard = :leaderboard"
ONLY_USER = "AND s.user_name = :user"
