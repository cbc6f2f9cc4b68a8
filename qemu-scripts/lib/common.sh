# shellcheck shell=bash
# Common ground of the scripts in qemu-scripts: where things are, how to speak,
# and which Rust toolchain to use. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}
case $TARGET_DIR in /*) ;; *) TARGET_DIR=$ROOT/$TARGET_DIR ;; esac
# shellcheck disable=SC2034 # read by the scripts that source this file
CACHE=${UNIPERF_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/uniperf}
# shellcheck disable=SC2034
IMAGE=$TARGET_DIR/image/uniperf.efi
# shellcheck disable=SC2034
RUST_VERSION=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' "$ROOT/rust-toolchain.toml")

# Tools of rustup, cargo and system administration that a bare PATH may lack.
for dir in "${HOME:-/}/.cargo/bin" /usr/local/sbin /usr/sbin /sbin; do
    case ":$PATH:" in
        *":$dir:"*) ;;
        *) if [ -d "$dir" ]; then PATH=$PATH:$dir; fi ;;
    esac
done
export PATH

# Says what is being done.
say() { printf 'uniperf: %s\n' "$*" >&2; }

# Says what went wrong, and ends.
die() {
    say "$*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Makes cargo and rustc below mean the compiler of rust-toolchain.toml, whatever
# name rustup knows it by. Fails when this machine has no such compiler.
select_toolchain() {
    local name
    have cargo && have rustc || return 1
    export RUSTUP_AUTO_INSTALL=0
    is_wanted_rust rustc && return 0
    have rustup || return 1
    for name in $(rustup toolchain list --quiet 2>/dev/null); do
        if is_wanted_rust rustup run "$name" rustc; then
            export RUSTUP_TOOLCHAIN=$name
            return 0
        fi
    done
    return 1
}

is_wanted_rust() {
    local version
    version=$(cd "$ROOT" && "$@" --version 2>/dev/null) || return 1
    [[ $version == "rustc $RUST_VERSION "* ]]
}

# What the image's build needs in its environment.
image_env() {
    export RUSTC_BOOTSTRAP=1 HERMIT_LOG_LEVEL_FILTER=${HERMIT_LOG_LEVEL_FILTER:-warn} NO_COLOR=1
}

# The target and the standard library's parts that the image is built for and with.
# shellcheck disable=SC2034
IMAGE_FLAGS=(--target x86_64-unknown-none "-Zbuild-std=core,alloc" -Zbuild-std-features=compiler-builtins-mem)

# Builds the image, and the files that boot from it.
build_image() {
    select_toolchain || die "no Rust $RUST_VERSION here, though setup ended well"
    say "building the image"
    (
        cd "$ROOT" && image_env &&
            cargo build --release -p uniperf-image "${IMAGE_FLAGS[@]}"
    )
    (
        cd "$ROOT" &&
            cargo run --quiet --locked -p uniperf-mkimage -- \
                "$TARGET_DIR/x86_64-unknown-none/release/uniperf" "$TARGET_DIR/image"
    )
}

# True when one of the arguments before a lone "--" asks for help.
asks_for_help() {
    local arg
    for arg in "$@"; do
        case $arg in
            -h | --help) return 0 ;;
            --) return 1 ;;
        esac
    done
    return 1
}

# The comment block at the head of script $1, which is its help.
print_help() { sed -n '2,/^$/{s/^# \{0,1\}//p}' "$1"; }

build_harness() {
    say "building the harness"
    (cd "$ROOT" && cargo build --quiet -p uniperf-harness --bin uniperf-qemu)
}

# Builds the device models, and has the harness use them.
build_nic_models() {
    say "building the device models"
    (cd "$ROOT" && cargo build --quiet --release --locked -p uniperf-nic-models)
    export UNIPERF_NIC_MODEL=$TARGET_DIR/release/nic-model
}

# True when one of the arguments before a lone "--" names a NIC of drivers/models.
names_nic_model() {
    local arg last=
    for arg in "$@"; do
        case "$last $arg" in
            "-- "*) return 1 ;;
            "--nic forcedeth" | "--nic forcedeth:"* | *" --nic=forcedeth" | *" --nic=forcedeth:"*)
                return 0
                ;;
            "--nic myri10ge" | "--nic myri10ge:"* | *" --nic=myri10ge" | *" --nic=myri10ge:"*)
                return 0
                ;;
        esac
        last=$arg
    done
    return 1
}

# Builds the harness, the device models where a NIC is one, and the image unless
# --image names one, and becomes `uniperf-qemu "$@"`.
start_harness() {
    local arg build=yes models=no purpose=run
    case $1 in
        linux) build=no purpose=peer ;;
        pxe) purpose=pxe ;;
    esac
    for arg in "$@"; do
        case $arg in
            --image | --image=*) build=no ;;
            --) break ;;
        esac
    done
    "$ROOT/qemu-scripts/setup" --for "$purpose"
    if names_nic_model "$@"; then
        models=yes
        "$ROOT/qemu-scripts/setup" --for models
    fi
    select_toolchain || die "no Rust $RUST_VERSION here, though setup ended well"
    if [ "$build" = yes ]; then
        build_image
        export UNIPERF_IMAGE=$IMAGE
    fi
    [ "$models" = no ] || build_nic_models
    build_harness
    export UNIPERF_ROOT=$ROOT UNIPERF_CACHE=$CACHE
    exec "$TARGET_DIR/debug/uniperf-qemu" "$@"
}
