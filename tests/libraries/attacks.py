"""Attacks, grouped by what they abuse."""

from typing import Final

from tests.libraries.hostile import (
    DATA_POINTER,
    LEAVE_MARK,
    MARKED,
    Attack,
    Patch,
    calling,
    constructor_hidden_from_sections,
    constructor_named_otherwise,
    good,
    hash_table,
    linked,
    relocation_of,
    relocation_to,
    set_field,
    symbol_of,
    symbols_hidden_from_sections,
)

SOURCE_OF_CALL = "extern double exp(double); int __tvm_ffi_other(int a) { return exp(a) > 2; }\n"
RUNS = "runs when it is loaded"
LOAD, DYNAMIC, STACK, RELRO = 1, 2, 0x6474E551, 0x6474E552
AT_LOADING: Final = (
    Attack("a constructor", lambda: linked(MARKED), RUNS),
    Attack(
        "a constructor of the C++ kind with the start files", lambda: linked(MARKED, tight=False), "PT_NOTE|runs when"
    ),
    Attack(
        "a destructor",
        lambda: linked(LEAVE_MARK + "__attribute__((destructor)) void end(void) { leave_mark(); }"),
        RUNS,
    ),
    Attack(
        "an array of constructors",
        lambda: linked(
            LEAVE_MARK + '__attribute__((section(".init_array"), used)) static void (*const at)(void) = leave_mark;'
        ),
        RUNS,
    ),
    Attack(
        "an array of destructors",
        lambda: linked(
            LEAVE_MARK + '__attribute__((section(".fini_array"), used)) static void (*const at)(void) = leave_mark;'
        ),
        RUNS,
    ),
    Attack("DT_INIT", lambda: linked(LEAVE_MARK + "void first(void) { leave_mark(); }", "-Wl,-init=first"), RUNS),
    Attack("DT_FINI", lambda: linked(LEAVE_MARK + "void last(void) { leave_mark(); }", "-Wl,-fini=last"), RUNS),
    Attack("DT_PREINIT_ARRAY", lambda: good().with_entry(32, 0x3000), RUNS),
    Attack(
        "an indirect function",
        lambda: linked(
            LEAVE_MARK
            + "static int plain(void) { return 1; } static void *pick(void) { leave_mark(); return plain; }"
            + 'int __tvm_ffi_picked(void) __attribute__((ifunc("pick")));',
        ),
        "OSABI|indirect|getenv",
    ),
    Attack(
        "an indirect function that calls nothing",
        lambda: linked(
            "static int plain(void) { return 1; } static void *pick(void) { return plain; }"
            'int __tvm_ffi_picked(void) __attribute__((ifunc("pick")));',
        ),
        "OSABI|indirect",
    ),
    Attack(
        "an indirect function that keeps quiet about its system",
        lambda: Patch(
            linked(
                LEAVE_MARK
                + "static int plain(void) { return 1; } static void *pick(void) { leave_mark(); return plain; }"
                + 'static int inner(void) __attribute__((ifunc("pick")));'
                + "int __tvm_ffi_picked(void) { return inner(); }",
            )
        ).written("<B", 7, 0),
        "type 37|calls|imports",
    ),
    Attack("an IRELATIVE relocation", lambda: relocation_of(37), "type 37"),
    Attack("a constructor without section headers", constructor_hidden_from_sections, RUNS),
    Attack("a constructor that a section calls data", constructor_named_otherwise, RUNS),
)
MEMORY: Final = (
    Attack("an executable stack", lambda: linked("", "-Wl,-z,execstack"), "executable stack"),
    Attack("no word about its stack", lambda: good().change_segment(STACK, set_field(0, 0)), "type 0x0|PT_GNU_STACK"),
    Attack("a writable and executable segment", lambda: good().change_segment(LOAD, set_field(1, 7), 1), "executable"),
    Attack("text relocations", lambda: good().with_entry(22, 0), "DT_TEXTREL"),
    Attack("text relocations by a flag", lambda: good().with_value(30, lambda flags: flags | 4), "DT_FLAGS"),
    Attack(
        "thread-local storage that begins with a value",
        lambda: linked("__thread int count = 7; int __tvm_ffi_other(void) { return count++; }"),
        "thread-local|calls|unknown type",
    ),
    Attack("a counter in .bss", lambda: linked("int __tvm_ffi_other(void) { static int n; return n++; }"), "state"),
    Attack(
        "a counter in .data", lambda: linked("int __tvm_ffi_other(void) { static int n = 7; return n++; }"), "state"
    ),
    Attack("a pointer in .data", lambda: linked(DATA_POINTER), "state|sealed"),
    Attack("a buffer of a page", lambda: linked("char b[4096]; int __tvm_ffi_o(int i) { return b[i]++; }"), "state"),
    Attack(
        "a counter that is called a pointer of the loader's",
        lambda: linked(
            "long __TVMBackendOwnCounter; int __tvm_ffi_other(void) { return (int)__TVMBackendOwnCounter++; }"
        ),
        "exports",
    ),
    Attack(
        "a buffer that is called a pointer of the loader's",
        lambda: linked(
            "long __TVMBackendParallelLaunch[8]; "
            "int __tvm_ffi_o(int i) { return (int)__TVMBackendParallelLaunch[i]++; }"
        ),
        "loader can fill",
    ),
    Attack("nothing sealed", lambda: linked(DATA_POINTER, "-Wl,-z,norelro"), "stays writable"),
    Attack("bound when it is called", lambda: linked(SOURCE_OF_CALL, "-Wl,-z,lazy"), "bind|stays writable"),
)
NAMES: Final = (
    *(
        Attack(f"a call of {name}", lambda name=name: calling(name), name)  # type: ignore[misc]
        for name in (
            *("system", "dlopen", "dlsym", "PyRun_SimpleString", "PyGILState_Ensure", "TVMFFIFunctionGetGlobal"),
            *("TVMBackendGetFuncFromEnv", "TVMFFIEnvModLookupFromImports", "TVMFFIFunctionCall", "execve", "malloc"),
            *("syscall", "mprotect", "TVMFFIFunctionSetGlobal", "longjmp"),
        )
    ),
    Attack(
        "a weak import",
        lambda: linked(
            "extern int system(char *) __attribute__((weak)); "
            "int __tvm_ffi_o(char *a) { return system ? system(a) : 0; }"
        ),
        "system",
    ),
    Attack(
        "an imported variable",
        lambda: linked("extern char **environ; int __tvm_ffi_other(void) { return environ != 0; }"),
        "environ",
    ),
    Attack(
        "a call of a versioned function",
        lambda: linked(
            'extern int system(char *); __asm__(".symver system,system@GLIBC_2.2.5"); '
            "int __tvm_ffi_o(char *a) { return system(a); }",
            "-lc",
        ),
        "system",
    ),
    Attack(
        "an export of malloc",
        lambda: linked("void *malloc(unsigned long n) { return 0; }", exports="{ global: *; };"),
        "malloc",
    ),
    Attack(
        "an export of a function of TVM",
        lambda: linked("int TVMFFIFunctionCall(void) { return 0; }", exports="{ global: *; };"),
        "TVMFFI",
    ),
    Attack(
        "a look-up through the loader's pointers",
        lambda: linked(
            "void *__TVMFFIEnvModLookupFromImports; "
            "int __tvm_ffi_o(void) { return __TVMFFIEnvModLookupFromImports != 0; }"
        ),
        "exports",
    ),
    Attack(
        "modules that the loader builds", lambda: linked("const char __tvm_ffi__library_bin[64] = {1};"), "library_bin"
    ),
    Attack(
        "metadata that the loader calls", lambda: linked("int __tvm_ffi__metadata_main(void) { return 0; }"), "metadata"
    ),
    Attack("an entry point that is data", lambda: linked("const int __tvm_ffi_other = 7;"), "not a function"),
    Attack("an entry point outside of its code", lambda: symbol_of(b"__tvm_ffi_main", 8, "<Q", 0), "outside its code"),
    Attack(
        "an entry point that is an indirect function", lambda: symbol_of(b"__tvm_ffi_main", 4, "<B", 0x1A), "indirect"
    ),
    Attack("an import with an address", lambda: symbol_of(b"exp", 8, "<Q", 0x1000), "address"),
    Attack("a local import", lambda: symbol_of(b"exp", 4, "<B", 0x02), "weakly|imports"),
)
LOADER: Final = (
    Attack("DT_RPATH", lambda: linked("", "-Wl,--disable-new-dtags,-rpath,/tmp/evil"), "DT_RPATH"),
    Attack("DT_RUNPATH", lambda: linked("", "-Wl,--enable-new-dtags,-rpath,/tmp/evil"), "DT_RUNPATH"),
    Attack("DT_AUDIT", lambda: linked("", "-Wl,--audit=/tmp/evil.so"), "DT_AUDIT"),
    Attack("DT_DEPAUDIT", lambda: linked("", "-Wl,--depaudit=/tmp/evil.so"), "DT_DEPAUDIT"),
    Attack("DT_FILTER", lambda: linked("", "-Wl,-F,/tmp/evil.so"), "DT_FILTER"),
    Attack("DT_AUXILIARY", lambda: linked("", "-Wl,-f,/tmp/evil.so"), "DT_AUXILIARY"),
    Attack("DT_CONFIG", lambda: good().with_entry(0x6FFFFEFA, 1), "DT_CONFIG"),
    Attack("DT_SYMBOLIC", lambda: good().with_entry(16, 0), "DT_SYMBOLIC"),
    Attack(
        "a needed library by its path", lambda: good().with_value(1, lambda name: name + 2), "makes the loader load"
    ),
    Attack("another needed library", lambda: linked("", "-Wl,--no-as-needed", "-lresolv"), "makes the loader load"),
    Attack("DT_RELR", lambda: good().with_entry(36, 0x3000), "DT_RELR"),
    Attack("an entry twice", lambda: good().with_entry(6, 0x200), "twice"),
    Attack(
        "a dynamic section without an end",
        lambda: good().change_segment(DYNAMIC, lambda f: f.__setitem__(slice(5, 7), [32, 32])),
        "no end",
    ),
    Attack("a dynamic section that goes on behind its end", lambda: _entry_behind_the_end(), "behind its end"),
    Attack("two dynamic sections", lambda: good().change_segment(RELRO, set_field(0, DYNAMIC)), "2 segments"),
    Attack(
        "a dynamic section elsewhere in memory",
        lambda: good().change_segment(DYNAMIC, set_field(3, 0)),
        "dynamic section",
    ),
    Attack("an interpreter", lambda: good().change_segment(STACK, set_field(0, 3)), "PT_INTERP"),
    Attack("an unknown DT_FLAGS_1", lambda: good().with_value(0x6FFFFFFB, lambda flags: flags | 2), "DT_FLAGS_1"),
    Attack("a string table outside", lambda: good().with_value(5, lambda _: 1 << 40), "string table"),
    Attack("a string table in writable memory", lambda: good().with_value(5, lambda _: good().value(3)), "lies"),
    Attack("a symbol table outside", lambda: good().with_value(6, lambda _: 0xFFFFFFFFFFFFFF00), "symbol table"),
    Attack("a giant string table", lambda: good().with_value(10, lambda _: 1 << 60), "string table"),
    Attack("giant relocations", lambda: good().with_value(8, lambda _: 24 << 40), "relocations"),
    Attack("relative relocations of other types", lambda: good().with_entry(0x6FFFFFF9, 1), "relative relocations"),
    Attack("a relocation of thread-local storage", lambda: relocation_of(16), "type 16"),
    Attack("a copy relocation", lambda: relocation_of(5), "type 5"),
    Attack(
        "a relocation into its dynamic section",
        lambda: relocation_to(lambda patch: next(patch.dynamic())[0] + 0x1000),
        "dynamic section",
    ),
    Attack("a relocation into its code", lambda: relocation_to(lambda _: 0x1000), "not sealed"),
    Attack("a relocation outside of its memory", lambda: relocation_to(lambda _: 1 << 40), "not sealed"),
    Attack("symbols outside of the hash table", lambda: hash_table(1, 1), "hash table"),
    Attack("a hash table without end", lambda: hash_table(0, 0xFFFFFFFF), "hash table"),
    Attack("a hash table of a giant filter", lambda: hash_table(2, 1 << 31), "hash table"),
    Attack("a hash table that begins at no symbol", lambda: hash_table(1, 0), "not begin at a symbol"),
)
FILES: Final = (
    Attack("a big-endian file", lambda: good().written("<B", 5, 2), "big-endian"),
    Attack("a file of 32 bits", lambda: good().written("<B", 4, 1), "machine|processor|class|library"),
    Attack("another processor", lambda: good().written("<H", 18, 8), "machine 8"),
    Attack("a program", lambda: good().written("<H", 16, 2), "not a shared library"),
    Attack("a file cut off in its header", lambda: bytes(good().bytes[:40]), "truncated"),
    Attack("a file cut off in its program headers", lambda: bytes(good().bytes[:100]), "truncated"),
    Attack("a file cut off in its segments", lambda: bytes(good().bytes[:0x1010]), "outside of the file"),
    Attack("a giant count of program headers", lambda: good().written("<H", 56, 0xFFFF), "program headers"),
    Attack("program headers elsewhere", lambda: good().written("<Q", 32, 1 << 63), "program headers"),
    Attack("section headers outside", lambda: good().written("<Q", 40, 1 << 50), "section headers"),
    Attack("a giant count of section headers", lambda: good().written("<H", 60, 0xFFFF), "section headers"),
    Attack("symbols that sections hide", symbols_hidden_from_sections, "section headers"),
    Attack(
        "segments that overlap in memory", lambda: good().change_segment(LOAD, set_field(3, 0), 1), "overlap|aligned"
    ),
    Attack("segments that overlap in the file", lambda: good().change_segment(LOAD, set_field(2, 0), 1), "overlap"),
    Attack("a segment at a giant address", lambda: good().change_segment(LOAD, set_field(6, 1 << 60), -1), "address"),
    Attack("a segment of odd alignment", lambda: good().change_segment(LOAD, set_field(7, 3), 1), "aligned"),
    Attack("no ELF file", lambda: b"#!/bin/sh\ntouch x\n" * 10, "not an ELF"),
    Attack("nothing", lambda: b"", "not an ELF"),
)
ATTACKS: Final = (*AT_LOADING, *MEMORY, *NAMES, *LOADER, *FILES)


def _entry_behind_the_end() -> bytes:
    """An entry follows the one at which the loader stops."""
    patch = good()
    ends = [at for at, tag, _ in patch.dynamic() if tag == 0]
    if len(ends) < 2:  # the entry before the last becomes the end
        at = [at for at, *_ in patch.dynamic()][-2]
        return patch.written("<QQ", at - 16, 0, 0)
    return patch.written("<QQ", ends[1], 25, 0x1000)
