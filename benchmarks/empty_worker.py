"""The baseline of draining: our worker's Celery, settings and queues, with tasks that do nothing."""

from bulkdeploy.queue.celery_app import make_celery
from bulkdeploy.wiring.settings import load_settings
from workers.app import consume
from workers.tasks import add_tasks


def nothing(job_id: int) -> None:
    """Do nothing."""
    del job_id


if __name__ == "__main__":
    app = make_celery(load_settings().require_redis_url())
    add_tasks(app, nothing)
    consume(app, nothing, lambda: None)
