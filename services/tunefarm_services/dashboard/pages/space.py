"""The space of a task: which decisions matter, the fastest schedules, and what the cost model believed."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.jobs.space import FastTrial, SketchView, SpaceDecision, SpaceView
from tunefarm_services.dashboard.drawings.model_plots import rank_plot, scatter_plot
from tunefarm_services.dashboard.drawings.parallel_coordinates import parallel_coordinates
from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.query import number_in
from tunefarm_services.dashboard.rendering import page
from tunefarm_services.dashboard.session import require_viewer
from tunefarm_services.space.space_view import exploration_of_task, space_view


def show_space(request: Request) -> Response:
    """The space of the task that the address names."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    job = parts.store.jobs.get(viewer.tenant, request.path_params["job_id"])
    explorations = parts.store.explorations.of_job(viewer.tenant, job.job_id)
    task = number_in(request, "task") or 0
    exploration = exploration_of_task(job, task, explorations)
    view = space_view(parts.store.samples, viewer.tenant, exploration.exploration_id)
    sketch = _shown_sketch(view, number_in(request, "sketch"))
    trials = [each for each in view.fastest if sketch is not None and each.sketch == sketch.number]
    begun = {(each.key.workload_id, each.key.target_id) for each in explorations}
    values = {
        "job": job,
        "task": task,
        "name": job.spec.tasks[task].name,
        "tasks": [
            (position, each.name)
            for position, each in enumerate(job.spec.tasks)
            if (each.workload_id, each.target_id) in begun
        ],
        "trials_made": exploration.spent.trials,
        "view": view,
        "sketch": sketch,
        "trials": trials,
        "stopped": sum(each.is_bound for each in trials),
        "chosen": number_in(request, "trial"),
        "drawing": None if sketch is None else parallel_coordinates(sketch, trials),
        "ranks": rank_plot(view.windows),
        "scatter": scatter_plot(view.predictions),
        "ranked": _by_importance(sketch),
    }
    return page(request, "space.html", values)


def _shown_sketch(view: SpaceView, number: int | None) -> SketchView | None:
    """The sketch that the address names, or that of the fastest trial."""
    fastest: FastTrial | None = view.fastest[0] if view.fastest else None
    wanted = number if number is not None else fastest.sketch if fastest is not None else 0
    return next((each for each in view.sketches if each.number == wanted), view.sketches[0] if view.sketches else None)


def _by_importance(sketch: SketchView | None) -> list[SpaceDecision]:
    """The decisions of a sketch, the most important first; those with too few trials last."""
    decisions = sketch.decisions if sketch is not None else ()
    return sorted(decisions, key=lambda each: -(each.importance.share if each.importance is not None else -1.0))


ROUTES: Final = (Route("/jobs/{job_id}/space", show_space, methods=["GET"]),)
