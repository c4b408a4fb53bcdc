"""Inlining of blocks whose values are cheaper to compute where they are read than to keep.

For each block in the order in which they run, but for reductions and outputs:

1. Keep it if a reader would repeat expensive work, or lose its vectors to a choice or to a copy across its order.
2. Keep it if the expressions that take the place of its reads become large.
3. Otherwise compute it where it is read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import tvm
import tvm_ffi

from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.untried.block_facts import BlockFacts, blocks_of, facts_of


@dataclass(frozen=True)
class InliningConfig:
    """The constants of inlining.

    Attributes:
        max_repeated: each element of anything but a copy is computed at most this many times on average.
        max_copied_nodes: nodes of expressions that take the place of several reads. Where each result is read twice to
            compute the next one, as in random number generators, they double with each step.
    """

    max_repeated: float = 1.5
    max_copied_nodes: int = 256


DEFAULTS: Final = InliningConfig()


def inline_cheap_blocks(schedule: Any) -> None:
    """Inline copies and casts, and all that is read about once; leave what its readers would compute repeatedly.

    TVM's code generator takes minutes for elementary functions of each other in one expression: each keeps its block.
    """
    for block in blocks_of(schedule):
        facts = facts_of(schedule, block)
        if facts is None or facts.reduces or facts.is_output:
            continue
        readers = schedule.get_consumers(block)
        consumers = [facts_of(schedule, each) for each in readers]
        if all(each is not None and _may_inline(facts, each, len(consumers)) for each in consumers):
            reads = _reads(schedule, block, readers)
            if reads > 1 and reads * facts.size > DEFAULTS.max_copied_nodes:
                continue
            try:
                schedule.compute_inline(block)
            except TVM_ERRORS:
                continue


def _reads(schedule: Any, block: Any, readers: Iterable[Any]) -> int:
    """How many expressions read what a block writes."""
    loads: list[Any] = []
    for each in readers:
        tvm_ffi.structural_walk(schedule.get(each).body, (tvm.ir.TensorLoad, loads.append), order="post")
    written = schedule.get(block).writes[0].source
    return sum(each.source.same_as(written) for each in loads)


def _may_inline(facts: BlockFacts, consumer: BlockFacts, consumers: int) -> bool:
    if facts.is_expensive and consumer.has_many_operations:
        return False
    if facts.chooses and consumers > 1 and consumer.reduces:
        return False  # the choice costs each reader its vectors
    repeated, limit = consumer.iterations / facts.iterations, DEFAULTS.max_repeated
    if consumer.reduces and repeated > limit:
        return facts.is_plain and not _crosses(facts)
    if facts.is_plain or repeated * consumers <= limit:
        return True
    return not facts.is_expensive and repeated <= limit


def _crosses(facts: BlockFacts) -> bool:
    """Whether a copy reads in another order than it writes."""
    written, read = facts.strides[-1], facts.strides[0]
    order = [number for number, step in enumerate(written) if step and facts.pattern.extents[number] > 1]
    steps = [read[number] for number in sorted(order, key=lambda number: -written[number])]
    return any(first < second for first, second in pairwise(steps))
