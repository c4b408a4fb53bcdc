"""A worker process: one lane of the farm, fed by Celery over Redis.

The main thread is Celery's, with its solo pool; a task hands a candidate to the lane's farm and returns as soon as
there is room for the next. Results, heartbeats and cancellations have threads of their own.
"""
