# shellcheck shell=bash
# The compiler, the standard library's sources, the test runner and the patched
# hermit-kernel. Sourced by setup.

HERMIT=hermit-kernel-0.11.0
NEXTEST_VERSION=0.9.143
# How long rustup's server may take.
RUSTUP_TIMEOUT=600

need_toolchain() {
    select_toolchain && return 0
    if have rustup; then
        say "asking rustup for Rust $RUST_VERSION"
        timeout "$RUSTUP_TIMEOUT" rustup toolchain install "$RUST_VERSION" \
            --profile minimal --component clippy,rustfmt >&2 || true
        select_toolchain && return 0
        die "rustup could not install Rust $RUST_VERSION. Where its server can be reached, run
    rustup toolchain install $RUST_VERSION
or make a compiler of exactly that version known to it with
    rustup toolchain link uniperf FOLDER"
    fi
    die "there is no Rust $RUST_VERSION here$(
        have rustc && printf ' (but %s)' "$(rustc --version 2>/dev/null)"
    ). Install rustup, and then
    rustup toolchain install $RUST_VERSION
or install rustc and cargo of exactly that version in another way."
}

need_components() {
    local missing=()
    (cd "$ROOT" && cargo clippy --version) >/dev/null 2>&1 || missing+=(clippy)
    (cd "$ROOT" && cargo fmt --version) >/dev/null 2>&1 || missing+=(rustfmt)
    [ ${#missing[@]} -gt 0 ] || return 0
    say "asking rustup for ${missing[*]}"
    if have rustup && (cd "$ROOT" && timeout "$RUSTUP_TIMEOUT" rustup component add "${missing[@]}"); then
        return 0
    fi
    die "the tests need ${missing[*]} of Rust $RUST_VERSION: install them, with
    rustup component add ${missing[*]}
where rustup's server can be reached"
}

# The sources that -Zbuild-std compiles.
need_library_sources() {
    local sysroot folder temporary deb
    sysroot=$(cd "$ROOT" && rustc --print sysroot)
    folder=$sysroot/lib/rustlib/src/rust
    have_library_sources "$folder" && return 0

    say "getting the standard library's sources"
    if have rustup && [ -d "$sysroot/lib/rustlib" ]; then
        (cd "$ROOT" && timeout 120 rustup component add rust-src) >"$WORK/rustup.log" 2>&1 || true
        have_library_sources "$folder" && return 0
        say "rustup did not get them; taking Debian's package rust-src"
    fi
    local advice="the image's build needs the standard library's sources of Rust $RUST_VERSION in
    $folder/library
Where rustup's server can be reached:
    rustup component add rust-src
Otherwise take the folder usr/src/rustc-$RUST_VERSION/library of Debian's package rust-src $RUST_VERSION"
    is_debian || die "$advice"
    mkdir -p "$folder" 2>/dev/null || true
    [ -w "$folder" ] || die "$advice
or run this once as root, as $folder is not yours to write:
    sudo $ROOT/qemu-scripts/setup"
    deb=$(download_package rust-src "$RUST_VERSION" main trixie-backports) ||
        deb=$(download_package rust-src "$RUST_VERSION" main "") ||
        deb=$(download_package rust-src "$RUST_VERSION" main sid) ||
        die "$advice
which none of Debian's suites has any more"
    # Beside its place, so that the rename is whole. A killed set-up may have left
    # its own there.
    rm -rf "$folder"/.uniperf-*
    temporary=$(mktemp -d "$folder/.uniperf-XXXXXX")
    TEMPORARY+=("$temporary")
    dpkg-deb -x "$deb" "$temporary"
    rm -rf "$folder/library"
    mv "$temporary/usr/src/rustc-$RUST_VERSION/library" "$folder/library"
    rm -rf "$temporary"
    have_library_sources "$folder" || die "Debian's rust-src is not as expected: $deb"
}

have_library_sources() {
    [ -f "$1/library/core/src/lib.rs" ] && [ -f "$1/library/Cargo.lock" ] &&
        [ -f "$1/library/alloc/src/lib.rs" ]
}

need_nextest() {
    have cargo-nextest && return 0
    say "building cargo-nextest $NEXTEST_VERSION: this takes some minutes, once"
    (
        cd "$ROOT"
        cargo install cargo-nextest --locked --version "$NEXTEST_VERSION" \
            --target-dir "$TARGET_DIR/cargo-nextest"
    ) || die "the tests need cargo-nextest: cargo install cargo-nextest --locked"
    rm -rf "$TARGET_DIR/cargo-nextest"
}

# git without the person's own settings, on a folder that may be another user's.
plain_git() {
    env -u GIT_DIR -u GIT_INDEX_FILE -u GIT_WORK_TREE -u GIT_PREFIX \
        GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 \
        git -c safe.directory='*' -c core.abbrev=7 -c core.autocrlf=false "$@"
}

# What the folder of hermit-kernel differs in from the crate as it was downloaded.
hermit_changes() {
    plain_git -C "$1" add --intent-to-add . &&
        plain_git -C "$1" diff --no-color --no-ext-diff
}

# target/patch/hermit-kernel-0.11.0: the crate as the registry has it, in the index
# of a git repository of its own, with the patch applied. The copy of the patch in
# .git says which one that was.
need_hermit() {
    local folder=$ROOT/target/patch/$HERMIT patch=$ROOT/patches/$HERMIT.patch crate new
    local applied=$folder/.git/uniperf.patch
    if [ -d "$folder" ]; then
        cmp -s "$patch" "$applied" && return 0
        [ -d "$folder/.git" ] || die "$folder is not of this script's making: remove it"
        hermit_changes "$folder" >"$WORK/changes"
        if cmp -s "$patch" "$WORK/changes"; then
            cp "$patch" "$applied.new" && mv "$applied.new" "$applied"
            return 0
        fi
        cmp -s "$applied" "$WORK/changes" ||
            die "$folder has changes that patches/$HERMIT.patch has not: keep them with
    qemu-scripts/setup --save-patch
or remove the folder"
    fi

    say "getting $HERMIT and applying our patch"
    mkdir -p "$ROOT/target/patch"
    rm -rf "$ROOT"/target/patch/.new-*
    new=$(mktemp -d "$ROOT/target/patch/.new-XXXXXX")
    TEMPORARY+=("$new")
    mkdir "$new/fetch"
    cat >"$new/fetch/Cargo.toml" <<MANIFEST
[package]
name = "fetch"
version = "0.0.0"
edition = "2024"

[lib]
path = "lib.rs"

[dependencies]
${HERMIT%-*} = { version = "=${HERMIT##*-}", default-features = false }

[workspace]
MANIFEST
    : >"$new/fetch/lib.rs"
    crate=$(cd "$new/fetch" && cargo metadata --format-version 1 --filter-platform x86_64-unknown-none |
        grep -o '"manifest_path":"[^"]*/'"${HERMIT%-*}"'[^"/]*/Cargo.toml"' |
        head -n 1 | sed 's/^"manifest_path":"//; s/\/Cargo.toml"$//') ||
        die "cargo could not get $HERMIT"
    cp -r "$crate" "$new/$HERMIT"
    (
        cd "$new/$HERMIT"
        rm -f .cargo-ok .cargo-checksum.json .cargo_vcs_info.json Cargo.toml.orig
        plain_git init -q .
        plain_git add --all --force .
        plain_git apply "$patch"
        cp "$patch" .git/uniperf.patch
    ) || die "$patch does not fit $HERMIT"
    rm -rf "$folder"
    mv "$new/$HERMIT" "$folder"
    rm -rf "$new"
}

# The patch, from the folder it is applied in.
save_patch() {
    local folder=$ROOT/target/patch/$HERMIT patch=$ROOT/patches/$HERMIT.patch
    [ -d "$folder/.git" ] || die "there is no $folder"
    hermit_changes "$folder" >"$patch.new"
    mv "$patch.new" "$patch"
    cp "$patch" "$folder/.git/uniperf.patch"
    say "wrote patches/$HERMIT.patch"
}
