"""The SQL of every read, as portable text with `:name` parameters, run through the DB-API."""

from __future__ import annotations

SCHEMA_VERSION = "0002"
"""The newest migration's revision; versions sort as text."""

HAS_TABLES = "SELECT count(*) AS n FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
HAS_VERSION = "SELECT count(*) AS n FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
VERSION = "SELECT version_num FROM alembic_version"

RUNNING = "SELECT id, host, pid, process_start FROM evaluations WHERE status = 'running'"
MARK_INTERRUPTED = """
UPDATE evaluations SET status = 'interrupted', reason_code = 'interrupted', reason_message = :message
WHERE id = :id AND status = 'running'
"""

_SUBMISSION = """
SELECT s.id, s.leaderboard, s.user_name, s.file_name, s.source_sha256, s.created_at, s.gpus,
       (SELECT max(p.id) FROM submissions p
        WHERE p.leaderboard = s.leaderboard AND p.user_name = s.user_name AND p.id < s.id) AS previous
FROM submissions s
"""
SUBMISSION = _SUBMISSION + "WHERE s.id = :id"
SOURCE = "SELECT text FROM sources WHERE sha256 = :sha256"
LEADERBOARDS = "SELECT DISTINCT leaderboard FROM submissions ORDER BY leaderboard"
LAST_SUBMISSION_ID = "SELECT max(id) AS id FROM submissions"
LATEST = _SUBMISSION + "WHERE s.user_name = :user ORDER BY s.id DESC LIMIT 1"
LATEST_ON_BOARD = _SUBMISSION + "WHERE s.user_name = :user AND s.leaderboard = :leaderboard ORDER BY s.id DESC LIMIT 1"

EVALUATION = "SELECT * FROM evaluations WHERE id = :id"
EVALUATIONS = "SELECT * FROM evaluations WHERE submission_id = :submission_id ORDER BY id"
CASES = "SELECT * FROM case_results WHERE evaluation_id = :evaluation_id ORDER BY id"

NOTES = "SELECT id, created_at, text FROM notes WHERE submission_id = :submission_id ORDER BY id"
TAGS = "SELECT tag FROM tags WHERE submission_id = :submission_id ORDER BY tag"
TECHNIQUES = "SELECT findings FROM techniques WHERE source_sha256 = :sha256 AND extractor_version = :version"

_SUMMARY_COLUMNS = """
       e.id AS evaluation_id, e.mode, e.protocol, e.grid, e.device_kind, e.device_name, e.isolation, e.interpreted,
       e.status, e.reason_code, e.reason_message, e.rank_reason_code, e.rank_reason_message,
       e.score_ns, e.score_low_ns, e.score_high_ns
"""
_HISTORY = f"""
SELECT s.id, s.leaderboard, s.user_name, s.file_name, s.source_sha256, s.created_at, {_SUMMARY_COLUMNS}
FROM submissions s LEFT JOIN evaluations e ON e.submission_id = s.id
"""
_OLDEST_FIRST = " ORDER BY s.id, e.id"
HISTORY = _HISTORY + "WHERE s.user_name = :user" + _OLDEST_FIRST
HISTORY_OF_BOARD = _HISTORY + "WHERE s.user_name = :user AND s.leaderboard = :leaderboard" + _OLDEST_FIRST
SCORED = f"""
SELECT s.id, s.leaderboard, s.user_name, s.file_name, s.source_sha256, s.created_at, {_SUMMARY_COLUMNS}
FROM submissions s JOIN evaluations e ON e.submission_id = s.id
WHERE s.leaderboard = :leaderboard AND e.status = 'passed' AND e.mode = 'leaderboard' AND e.score_ns IS NOT NULL
ORDER BY e.id
"""
