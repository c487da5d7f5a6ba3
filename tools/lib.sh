# shellcheck shell=bash
#
# tools/lib.sh: what ./quickstart and ./run-tests share; sourced by both.
#
# The caller sets `name`, with which each line begins, and has changed into the
# root of the tree.

: "${name:?}"

say() { printf '%s: %s\n' "$name" "$*"; }

die() {
    printf '%s: %s\n' "$name" "$*" >&2
    exit 1
}

# Whether programs can run on a real device here.
have_gpu() { [ -e /dev/nvidiactl ]; }

# quietly LOG COMMAND...: runs it with its output in LOG.
quietly() {
    local log=$1
    shift
    "$@" >"$log" 2>&1
}

# build DIRECTORY [OPTION...] [-- TARGET...]: configures the directory with meson
# if need be, and compiles all of it or the targets. The output goes to
# DIRECTORY.log; false if a step failed.
build() {
    local dir=$1 options=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    [ $# = 0 ] || shift
    if [ ! -f "$dir/build.ninja" ]; then
        say "configuring $dir (the first time, libunwind is built too)"
        rm -rf "$dir"
        # meson would build it as well, but keeps to itself what that said.
        quietly "$dir.log" tools/libunwind/build || return
        quietly "$dir.log" meson setup "${options[@]}" "$dir" || return
    elif [ ${#options[@]} -gt 0 ]; then
        quietly "$dir.log" meson configure "${options[@]}" "$dir" || return
    fi
    say "compiling $dir"
    quietly "$dir.log" meson compile -C "$dir" "$@"
}

# The end of what a failed build said.
show_log() {
    printf '%s: the end of %s:\n' "$name" "$1" >&2
    tail -n "${2:-40}" "$1" >&2
}
