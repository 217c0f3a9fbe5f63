"""The baseline of draining: our Celery, settings and queues; tasks do nothing, and are run as Celery does."""

from celery.worker.consumer import Consumer

from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.celery_app import make_celery
from bulkdeploy.queue.celery_queue import task_name
from bulkdeploy.wiring.settings import load_settings
from workers.app import consume


def nothing(job_id: int) -> None:
    """Do nothing."""
    del job_id


if __name__ == "__main__":
    app = make_celery(load_settings().require_redis_url)
    app.task(name=task_name(DEPLOY.name), ignore_result=True, typing=False)(nothing)
    consume(app, Consumer, lambda: None)
