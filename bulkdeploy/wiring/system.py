"""Creates all objects of an API process from the settings."""

from functools import partial

from sqlalchemy import Engine

from bulkdeploy.processes.failpoints import arm, kills_from
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.scheduling.allocators import use_allocators_of
from bulkdeploy.services.system import PASSWORD_THREADS, WATCHING_THREADS, System
from bulkdeploy.store.database.engine import Plans, create_engine, create_reading_engine
from bulkdeploy.store.migrations.revisions import refuse_other_releases
from bulkdeploy.wiring import secret_files
from bulkdeploy.wiring.cipher import build_cipher
from bulkdeploy.wiring.drivers import build_configured_drivers, build_power_drivers
from bulkdeploy.wiring.host_files import read_host_files
from bulkdeploy.wiring.settings import Settings


def first_admin_password(settings: Settings) -> str:
    """Return the first password of ``admin`` from the settings, or the one generated in ``data_dir``."""
    if settings.admin_password is not None:
        return settings.admin_password.get_secret_value()
    return secret_files.admin_password(settings.data_dir)


def build_engine(
    settings: Settings,
    *,
    application_name: str = "bulkdeploy",
    least_pool_size: int = 1,
    plans: Plans = Plans.KEPT,
    of_any_release: bool = False,
) -> Engine:
    """Return the database engine for the configured database.

    Args:
        settings: the settings.
        application_name: the name that the database's statistics show.
        least_pool_size: the least number of connections in the pool.
        plans: the way in which the database plans repeated statements.
        of_any_release: whether a schema of another release is accepted; otherwise connecting raises SchemaMismatch.
    """
    engine = create_engine(
        settings.require_database_url(),
        pool_size=max(settings.database_pool_size, least_pool_size),
        application_name=application_name,
        plans=plans,
        prepares=settings.database_prepared_statements,
    )
    if not of_any_release:
        refuse_other_releases(engine)
    use_allocators_of(engine, settings.allocator_directory)
    return engine


def build_job_queue(settings: Settings) -> JobQueue:
    """Return the job queue to the workers."""
    return CeleryJobQueue(settings.require_redis_url())


def arm_failpoints(settings: Settings) -> None:
    """Arm the failpoints of a test, if ``failpoints_dir`` is set."""
    if settings.failpoints_dir is not None:
        arm(kills_from(settings.failpoints_dir))


def build_system(settings: Settings) -> System:
    """Return the objects that an API process uses.

    A request uses a connection for reading, and may need another one for a transaction. Each pool has one
    connection per thread, so that threads never wait for each other forever.
    """
    arm_failpoints(settings)
    threads, name = settings.api_threads + PASSWORD_THREADS + WATCHING_THREADS, "bulkdeploy api"
    reader = create_reading_engine(
        settings.require_database_url(),
        pool_size=threads,
        application_name=name,
        prepares=settings.database_prepared_statements,
    )
    refuse_other_releases(reader)
    engine = build_engine(settings, application_name=name, least_pool_size=threads)
    return System(
        engine=engine,
        reader=reader,
        job_queue=build_job_queue(settings),
        cipher=build_cipher(settings),
        data_dir=settings.data_dir,
        drivers=build_configured_drivers(settings, engine),
        power=build_power_drivers(settings),
        host_files=partial(read_host_files, settings),
        fetch_rules=settings.fetch,
        guest_networks=settings.guest_networks,
        trusted_proxies=",".join(settings.trusted_proxies),
    )
