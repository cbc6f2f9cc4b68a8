# shellcheck shell=bash
# A QEMU that takes NICs from other processes, by vfio-user: the system's where it is
# 10.1 or newer and was built with it, otherwise one of Debian's beside the system's.
# Sourced by setup.

# The suite of the libraries, and that of QEMU itself.
QEMU_SUITE=trixie
QEMU_BACKPORTS=trixie-backports

need_qemu_for_models() {
    local folder=$CACHE/qemu-vfio-user key
    has_vfio_user qemu-system-x86_64 && return 0
    key=$(sha256sum <"$ROOT/qemu-scripts/lib/qemu.sh")
    [ -f "$folder/key" ] && [ "$(<"$folder/key")" = "$key" ] && return 0

    local advice="the device models need a QEMU with vfio-user-pci: put one of version 10.1 or
newer, built with it, first on PATH as qemu-system-x86_64"
    is_debian || die "$advice"
    say "getting a QEMU with vfio-user-pci (downloads 38 MB, once)"
    download_qemu || die "$advice
as none of this machine's mirrors has Debian's $QEMU_BACKPORTS"
    say "unpacking it"
    unpack_qemu "$WORK/qemu"
    # Beside its place, so that the rename is whole.
    rm -rf "$folder.new"
    cp -r "$WORK/qemu" "$folder.new"
    write_qemu_wrapper "$folder.new"
    has_vfio_user "$folder.new/qemu-system-x86_64" ||
        die "Debian's QEMU does not run here, or lacks vfio-user-pci: $advice"
    printf '%s' "$key" >"$folder.new/key"
    rm -rf "$folder"
    mv "$folder.new" "$folder"
}

# Whether QEMU $1 has it. Help for a device that is not there also ends with 0, and a
# list of all devices would load all modules, those of the system's QEMU among them.
has_vfio_user() {
    have "$1" && "$1" -device vfio-user-pci,help 2>/dev/null | grep '^vfio-user-pci options' >/dev/null
}

# Downloads QEMU and all that it depends on, as for a machine with no package at all,
# into $QEMU_ARCHIVES. What was downloaded before is not downloaded again.
download_qemu() {
    local uri _ name=qemu-vfio-user folder=$CACHE/apt/qemu-vfio-user
    QEMU_ARCHIVES=$folder/cache/archives
    while read -r uri _; do
        make_private_apt "$name" "$uri" "$QEMU_SUITE $QEMU_BACKPORTS" main
        : >"$folder/status"
        private_apt "$name" apt-get -q update >&2 || continue
        private_apt "$name" apt-get -q autoclean >&2 || continue
        private_apt "$name" apt-get -q install -y --download-only --no-install-recommends \
            -o "Dir::State::status=$folder/status" -t "$QEMU_BACKPORTS" qemu-system-x86 >&2 &&
            return 0
    done < <(debian_mirrors)
    return 1
}

# Unpacks what was downloaded, and keeps in $1 what QEMU runs with.
unpack_qemu() {
    local archive part whole
    whole=$(temporary_folder)
    for archive in "$QEMU_ARCHIVES"/*.deb; do
        dpkg-deb -x "$archive" "$whole"
    done
    for part in bin/qemu-system-x86_64 lib share/qemu share/seabios; do
        mkdir -p "$(dirname "$1/usr/$part")"
        mv "$whole/usr/$part" "$1/usr/$part"
    done
    rm -rf "$whole"
}

# Makes a program in $1 that runs the QEMU there with the libraries, modules and ROMs
# there, by its own loader, as those of the system are older.
write_qemu_wrapper() {
    local loader libraries
    loader=$(cd "$1" && find usr/lib -name 'ld-linux*.so.*' -type f)
    libraries=$(dirname "$loader")
    cat >"$1/qemu-system-x86_64" <<WRAPPER
#!/bin/sh
folder=\$(dirname "\$(readlink -f "\$0")")
export QEMU_MODULE_DIR="\$folder/$libraries/qemu"
exec "\$folder/$loader" --inhibit-cache --library-path "\$folder/$libraries" \\
    --argv0 "\$0" "\$folder/usr/bin/qemu-system-x86_64" \\
    -L "\$folder/usr/share/qemu" -L "\$folder/usr/share/seabios" "\$@"
WRAPPER
    chmod 755 "$1/qemu-system-x86_64"
}
