"""A schedule that does not build for a CPU: it binds its loop to GPU threads."""


def on_a_graphics_card(sch):
    i, *_ = sch.get_loops(sch.get_sblock("C", "main"))
    _, inner = sch.split(i, sch.sample_perfect_tile(i, n=2))
    sch.bind(inner, "threadIdx.x")
