"""Facts about this host, from a child that has TVM loaded."""

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_workers.conversation.child_answer import ChildFailed, answer_of
from tunefarm_workers.session.device.session_messages import HostFacts, Toolchain

_ANSWER_S = 30.0


def host_facts(fork_server: ForkServer, limits: Limits, toolchain: Toolchain) -> HostFacts:
    """The processor of this host, and its code generator with ``toolchain``. Raises ``ForkFailed``."""
    entry = "tunefarm_workers.session.compiler.build_child:run_facts"
    payload = toolchain.model_dump_json().encode()
    with fork_server.fork(entry, payload, limits=limits, confinement=Confinement.strict()) as child:
        try:
            return HostFacts.model_validate_json(answer_of(child, _ANSWER_S, "looking at this host", lambda: True))
        except ChildFailed as failed:
            raise ForkFailed("server_lost", failed.failure.message) from failed
