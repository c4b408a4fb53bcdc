"""The child that writes a text of a record's code. It may die of a trace, a module or a library: none is trusted."""

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.views.record import MAX_CODE_CHARACTERS, CodeForm
from tunefarm_schemas.visible_text import visible
from tunefarm_search.records.schedule_view import lowered_script, schedule_view
from tunefarm_services.record_views.code_messages import CodeQuestion, CodeText, RecordSchedule
from tunefarm_services.record_views.disassembly import disassembled


def code_text(question: CodeQuestion) -> CodeText:
    """Write the text that is asked for.

    Raises:
        BadInput: the trace does not apply, or the library cannot be read.
    """
    source = question.source
    if isinstance(source, bytes):
        text, is_whole = disassembled(source)
        return _bounded(text, is_whole=is_whole)
    return _bounded(_schedule_text(question.form, source, source.target))


def _schedule_text(form: CodeForm, source: RecordSchedule, target: Target) -> str:
    if form is CodeForm.LOWERED:
        return lowered_script(source.module_json, source.trace, target)
    view = schedule_view(source.module_json, source.trace, target.kind)
    return {CodeForm.PYTHON: view.python, CodeForm.SCHEDULED: view.script, CodeForm.DIFF: view.difference}[form]


def _bounded(text: str, *, is_whole: bool = True) -> CodeText:
    shown = visible(text[: MAX_CODE_CHARACTERS + 1])
    if len(shown) <= MAX_CODE_CHARACTERS:
        return CodeText(text=shown, is_truncated=not is_whole)
    end = shown.rfind("\n", 0, MAX_CODE_CHARACTERS) + 1
    return CodeText(text=shown[: end or MAX_CODE_CHARACTERS], is_truncated=True)


main = answering(CodeQuestion, code_text)
