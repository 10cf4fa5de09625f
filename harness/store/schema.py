"""The tables, in SQLAlchemy Core. Portable between SQLite and PostgreSQL: text, integers and floats only.

`harness.store.codec` says what each column holds. A change here needs a migration and a new `SCHEMA_VERSION`.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

FOR_READERS = {"for": "readers"}
"""Of an index that no writer looks into: see `harness.store.suspended`."""
FOR_IMPORTS = {"for": "imports"}
"""Of one that imports alone look into."""

sources = Table(
    "sources",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("text", Text, nullable=False),
)

submissions = Table(
    "submissions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("leaderboard", Text, nullable=False),
    Column("user_name", Text, nullable=False),  # `user` is a reserved word in PostgreSQL
    Column("file_name", Text, nullable=False),
    Column("source_sha256", String(64), ForeignKey("sources.sha256"), nullable=False),
    Column("created_at", String(27), nullable=False),
    Column("gpus", Text, nullable=False),
    # What is imported says where it comes from, so that a second import knows it: see harness.transfer.
    Column("origin", Text),
    Column("published", Text),
    Index(None, "leaderboard", "user_name", "created_at", "id", info=FOR_READERS),
    Index(None, "origin", unique=True, info=FOR_IMPORTS),
    sqlite_autoincrement=True,  # an id is never used twice, not even after a deletion
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("submission_id", Integer, ForeignKey("submissions.id"), nullable=False),
    Column("mode", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("grid", Text, nullable=False),
    Column("ranking_by", Text, nullable=False),
    Column("device_kind", Text, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("device_details", Text, nullable=False),
    Column("isolation", Text, nullable=False),
    Column("interpreted", Boolean, nullable=False),
    Column("seed", Text, nullable=False),
    Column("versions", Text, nullable=False),
    Column("log", Text, nullable=False),
    Column("cases_planned", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason_code", Text),
    Column("reason_message", Text),
    Column("rank_reason_code", Text),
    Column("rank_reason_message", Text),
    Column("phases_s", Text, nullable=False),
    Column("state", Text),
    Column("started_at", String(27), nullable=False),
    Column("finished_at", String(27)),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_start", Text, nullable=False),
    # Derived by harness.measure when the evaluation ends, so that a ranking need not read samples.
    Column("score_ns", Double),
    Column("score_low_ns", Double),
    Column("score_high_ns", Double),
    Column("benchmarks", Text),  # harness.measure.scoring.benchmarks_digest
    Column("rank_then", Integer),  # the rank that the score held when the evaluation ended
    Column("origin", Text),
    Column("published", Text),
    Index(None, "submission_id"),
    # The few that run, or were cut off, among the many that ended.
    Index(
        "ix_evaluations_running",
        "status",
        sqlite_where=text("status = 'running'"),
        postgresql_where=text("status = 'running'"),
    ),
    sqlite_autoincrement=True,
)

case_results = Table(
    "case_results",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("evaluation_id", Integer, ForeignKey("evaluations.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("idx", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason_code", Text),
    Column("reason_message", Text),
    Column("traceback", Text, nullable=False),
    Column("wall_ns", Text),
    Column("overhead_ns", Text),
    Column("events_ns", Text),
    Column("workers", Integer),
    Column("stop_rule", Text),
    Column("flops", Double),
    Column("bytes_moved", Double),
    Column("speed_of_light_ns", Double),
    Column("floor_ns", Double),
    Column("notes", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    UniqueConstraint("evaluation_id", "kind", "idx"),
)

notes = Table(
    "notes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("submission_id", Integer, ForeignKey("submissions.id"), nullable=False),
    Column("created_at", String(27), nullable=False),
    Column("text", Text, nullable=False),
    Index(None, "submission_id"),
    sqlite_autoincrement=True,
)

tags = Table(
    "tags",
    metadata,
    Column("submission_id", Integer, ForeignKey("submissions.id"), primary_key=True),
    Column("tag", Text, primary_key=True),
)

# What harness.techniques read from a source; `findings` is the JSON text that harness.techniques.codec makes.
techniques = Table(
    "techniques",
    metadata,
    Column("source_sha256", String(64), ForeignKey("sources.sha256"), primary_key=True),
    Column("extractor_version", Integer, primary_key=True, autoincrement=False),
    Column("findings", Text, nullable=False),
)

# What `harness compile` said of a source, the newest for each architecture; `report` is the JSON text that
# harness.compiling.jsonable makes. The leaderboard is the one whose cases were followed, empty for none.
compilations = Table(
    "compilations",
    metadata,
    Column("source_sha256", String(64), ForeignKey("sources.sha256"), primary_key=True),
    Column("leaderboard", Text, primary_key=True),
    Column("architecture", Text, primary_key=True),
    Column("report", Text, nullable=False),
    Column("created_at", String(27), nullable=False),
)

device_calibrations = Table(
    "device_calibrations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("device_kind", Text, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("device_details", Text, nullable=False),
    Column("figures", Text, nullable=False),
    Column("versions", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", String(27), nullable=False),
    sqlite_autoincrement=True,
)

noise_calibrations = Table(
    "noise_calibrations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("device_kind", Text, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("leaderboard", Text, nullable=False),
    Column("grid", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("scores_ns", Text, nullable=False),
    Column("created_at", String(27), nullable=False),
    sqlite_autoincrement=True,
)

store_info = Table(
    "store_info",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# Derived from the tables above by harness.store.standings alone, so that a ranking reads no more than it shows.
rank_classes = Table(
    "rank_classes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("leaderboard", Text, nullable=False),
    Column("grid", Text, nullable=False),
    Column("device_kind", Text, nullable=False),
    Column("device_name", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("isolation", Text, nullable=False),
    Column("benchmarks", Text, nullable=False),
    Column("unranked", Text, nullable=False),  # the reason why its scores do not rank; empty when they do
    Column("last_evaluation_id", Integer, nullable=False),
    Column("stale", Boolean, nullable=False),  # its user_standings are behind its scored_runs
    UniqueConstraint(
        "leaderboard",
        "grid",
        "device_kind",
        "device_name",
        "protocol",
        "isolation",
        "benchmarks",
        "unranked",
        name="uq_rank_classes",
    ),
)

scored_runs = Table(
    "scored_runs",
    metadata,
    Column("class_id", Integer, primary_key=True, autoincrement=False),
    Column("user_name", Text, primary_key=True),
    Column("source_sha256", String(64), primary_key=True),
    Column("evaluation_id", Integer, primary_key=True, autoincrement=False),
    Column("submission_id", Integer, nullable=False),
    Column("finished_at", String(27), nullable=False),
    Column("score_ns", Double, nullable=False),
    Column("score_low_ns", Double),
    Column("score_high_ns", Double),
    sqlite_with_rowid=False,  # the rows of a class lie side by side
)

user_standings = Table(
    "user_standings",
    metadata,
    Column("class_id", Integer, primary_key=True, autoincrement=False),
    Column("user_name", Text, primary_key=True),
    Column("submission_id", Integer, nullable=False),
    Column("evaluation_id", Integer, nullable=False),
    Column("score_ns", Double, nullable=False),
    Column("score_low_ns", Double),
    Column("score_high_ns", Double),
    Column("runs", Integer, nullable=False),  # of the source that stands
    Column("all_runs", Integer, nullable=False),  # of every source of the user
    Column("last_evaluation_id", Integer, nullable=False),
    Index(None, "class_id", "score_ns"),
)
