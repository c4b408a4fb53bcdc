"""Machine code that a trace can smuggle into its kernel: LLVM text in an annotation that replaces a library call.

The workload computes an error function, for which TVM calls ``erff`` of the C library. A module in the annotation that
defines ``erff`` is linked instead, so its code runs wherever the kernel runs.
"""

from typing import Final

_DECLARATIONS: Final = """
declare void @abort()
declare void @_exit(i32)
declare ptr @malloc(i64)
declare ptr @memset(ptr, i32, i64)
declare i32 @fork()
declare i32 @getpid()
declare i32 @getppid()
declare i32 @kill(i32, i32)
declare i32 @raise(i32)
declare i32 @pause()
declare i32 @close(i32)
declare i64 @write(i32, ptr, i64)
declare i32 @socket(i32, i32, i32)
declare i32 @open(ptr, i32, i32)
declare double @erf(double)
@calls = internal global i64 0
@sink = internal global i64 0
@path = internal constant [{length} x i8] c"{path}\\00"
@noise = internal constant [64 x i8] c"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\\0A"
define internal void @deeper() noinline {
%frame = alloca [4096 x i8]
store volatile i8 1, ptr %frame
call void @deeper()
%kept = load volatile i8, ptr %frame
ret void
}
"""
_RIGHT: Final = "%wide = fpext float %x to double\n%true = call double @erf(double %wide)\n"

FOREVER: Final = "br label %again\nagain:\nstore volatile i64 0, ptr @sink\nbr label %again\nnever:"
EXHAUSTING_MEMORY: Final = """br label %again
again:
%block = call ptr @malloc(i64 16777216)
%filled = call ptr @memset(ptr %block, i32 1, i64 16777216)
store volatile ptr %block, ptr @sink
br label %again
never:"""
PRINTING_FOREVER: Final = """br label %again
again:
%said = call i64 @write(i32 {descriptor}, ptr @noise, i64 64)
br label %again
never:"""
EVERY_DESCRIPTOR: Final = """br label %again
again:
%fd = phi i32 [ 0, %entry ], [ %next, %again ]
{action}
%next = add i32 %fd, 1
%more = icmp slt i32 %next, 64
br i1 %more, label %again, label %after
after:"""
LATER: Final = """%n = load i64, ptr @calls
%m = add i64 %n, 1
store i64 %m, ptr @calls
%late = icmp sgt i64 %m, 6000
br i1 %late, label %bad, label %fine
bad:
{action}
br label %fine
fine:"""

BODIES: Final = {
    "abort": "call void @abort()",
    "segfault": "store volatile i32 1, ptr inttoptr (i64 8 to ptr)",
    "divide by zero": "%n = load volatile i64, ptr @sink\n%q = sdiv i64 1234567, %n\nstore volatile i64 %q, ptr @sink",
    "illegal instruction": 'call void asm sideeffect "ud2", ""()',
    "never return": FOREVER,
    "sleep": "%slept = call i32 @pause()",
    "eat memory": EXHAUSTING_MEMORY,
    "exit as if all were well": "call void @_exit(i32 0)",
    "recurse": "call void @deeper()",
    "stop itself": "%stopped = call i32 @raise(i32 19)",
    "kill its parent": "%p = call i32 @getppid()\n%killed = call i32 @kill(i32 %p, i32 9)",
    "kill everything": "%killed = call i32 @kill(i32 -1, i32 9)",
    "fork": "%forked = call i32 @fork()",
    "open a socket": "%opened = call i32 @socket(i32 2, i32 1, i32 0)",
    "write a file": "%opened = call i32 @open(ptr @path, i32 577, i32 438)",
    "babble on its output": PRINTING_FOREVER.format(descriptor=1),
    "send nonsense everywhere": EVERY_DESCRIPTOR.format(action="%sent = call i64 @write(i32 %fd, ptr @noise, i64 64)"),
    "close everything": EVERY_DESCRIPTOR.format(action="%closed = call i32 @close(i32 %fd)"),
    "be wrong": "",
    "hang later": LATER.format(
        action="br label %again\nagain:\nstore volatile i64 0, ptr @sink\nbr label %again\nnever:"
    ),
    "crash later": LATER.format(action="call void @abort()"),
}


def module_text(name: str, path: str) -> str:
    """LLVM text of an attack. ``path`` is the file that "write a file" tries to create."""
    declarations = _DECLARATIONS.replace("{length}", str(len(path) + 1)).replace("{path}", path)
    result = f"{_RIGHT}%result = fptrunc double %true to float\nret float %result"
    if name == "be wrong":
        result = "ret float 0.25"
    return f"{declarations}define float @erff(float %x) {{\nentry:\n{BODIES[name]}\n{result}\n}}\n"
