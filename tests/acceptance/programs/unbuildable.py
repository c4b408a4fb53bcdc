"""A schedule that every processor refuses: its loop runs on the threads of a graphics card."""


def on_a_graphics_card(sch):
    i, *_ = sch.get_loops(sch.get_sblock("C", "main"))
    _, inner = sch.split(i, sch.sample_perfect_tile(i, n=2))
    sch.bind(inner, "threadIdx.x")
