# shellcheck shell=bash
# The Linux guest to compare with: Debian's kernel, and a RAM file system of busybox, the
# NICs' drivers and firmware, netserver, netperf and ethtool. Beside it an archive with
# kexec, for the tests that start the appliance from Linux. Sourced by setup.

# The kernel's modules in it, below drivers, with what they depend on.
LINUX_MODULES='net/ethernet/intel/e1000/e1000 net/ethernet/nvidia/forcedeth
dca/dca net/ethernet/myricom/myri10ge/myri10ge'

need_linux_peer() {
    local folder=$CACHE/linux-peer new key version
    local init=$ROOT/qemu-scripts/lib/linux-init
    local firmware=$CACHE/myri10ge/firmware.cpio
    [ -f "$firmware" ] || firmware=/dev/null
    key=$(cat "$init" "$ROOT/qemu-scripts/lib/linux.sh" "$(command -v netserver)" \
        "$(command -v netperf)" "$firmware" | sha256sum)
    [ -f "$folder/key" ] && [ "$(<"$folder/key")" = "$key" ] && return 0

    is_debian || die "the Linux guest is made of Debian's packages linux-image-amd64,
busybox-static, ethtool, libmnl0 and kexec-tools; put a kernel as vmlinuz, a RAM file system as initrd
and an archive with kexec and its libraries as kexec into $folder"
    say "making the Linux guest (downloads 73 MB, once)"
    local kernel busybox metapackage ethtool libmnl program
    metapackage=$(download_package linux-image-amd64 "" main "") ||
        die "there is no linux-image-amd64"
    version=$(dpkg-deb -f "$metapackage" Depends | sed 's/ .*//')
    kernel=$(download_package "$version" "" main "") || die "there is no $version"
    busybox=$(download_package busybox-static "" main "") || die "there is no busybox-static"
    ethtool=$(download_package ethtool "" main "") || die "there is no ethtool"
    libmnl=$(download_package libmnl0 "" main "") || die "there is no libmnl0"

    new=$(temporary_folder)
    mkdir -p "$new/kernel" "$new/root/bin" "$new/root/lib" "$new/peer"
    dpkg-deb -x "$busybox" "$new/busybox"
    cp "$(find "$new/busybox" -name busybox -type f -perm -100)" "$new/root/bin/busybox"
    unpack_kernel "$kernel" "$new/kernel"
    cp "$new"/kernel/boot/vmlinuz-* "$new/peer/vmlinuz"
    copy_modules "$new/kernel" "$new/root" "${version#linux-image-}"
    dpkg-deb -x "$ethtool" "$new/ethtool"
    dpkg-deb -x "$libmnl" "$new/ethtool"
    cp "$(find "$new/ethtool" -path '*/sbin/ethtool' -type f)" "$new/root/bin/"
    cp "$(find "$new/ethtool" -name 'libmnl.so.0.*' -type f)" "$new/root/lib/libmnl.so.0"
    for program in netserver netperf; do
        cp "$(command -v $program)" "$new/root/bin/"
        copy_libraries "$(command -v $program)" "$new/root"
    done
    if [ "$firmware" != /dev/null ]; then
        mkdir -p "$new/root/lib/firmware"
        cp "${firmware%/*}"/*.dat "$new/root/lib/firmware/"
    fi
    install -m 755 "$init" "$new/root/init"
    archive "$new/root" "$new/root/bin/busybox" >"$new/peer/initrd"
    unpack_with_libraries kexec-tools "$new/kexec-tools" || die "there is no kexec-tools"
    mkdir -p "$new/kexec/bin"
    cp "$(find "$new/kexec-tools" -path '*/sbin/kexec' -type f)" "$new/kexec/bin/"
    copy_libraries "$new/kexec/bin/kexec" "$new/kexec" "$new/kexec-tools"
    archive "$new/kexec" "$new/root/bin/busybox" >"$new/peer/kexec"
    printf '%s' "$key" >"$new/peer/key"
    mkdir -p "$CACHE"
    rm -rf "$folder" "$folder.new"
    cp -r "$new/peer" "$folder.new"
    mv "$folder.new" "$folder"
}

# Unpacks of the kernel's package $1 into $2 the kernel and LINUX_MODULES.
unpack_kernel() {
    local module wanted=('./boot/vmlinuz-*')
    for module in $LINUX_MODULES; do
        wanted+=("*/kernel/drivers/$module.ko*")
    done
    dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards "${wanted[@]}"
}

# Puts LINUX_MODULES of the unpacked kernel $1, version $3, where modprobe of the root $2
# finds them. They may be compressed.
copy_modules() {
    local module folder=$2/lib/modules/$3
    mkdir -p "$folder"
    for module in $LINUX_MODULES; do
        find "$1" -path "*/kernel/drivers/$module.ko*" \
            -exec /usr/lib/apt/apt-helper cat-file {} + >"$folder/${module##*/}.ko"
    done
    "$2/bin/busybox" depmod -b "$2" "$3"
}

# The folder $1 as a compressed archive that Linux unpacks at its start, by busybox $2.
archive() { (cd "$1" && find . | "$2" cpio -o -H newc) 2>/dev/null | gzip -1; }

# Copies the libraries of program $1 into the root $2, at the paths where it looks for
# them. Those that this machine lacks are in the unpacked packages in $3.
copy_libraries() {
    local library unpacked=${3:-} paths=
    [ -z "$unpacked" ] ||
        paths=$(find "$unpacked" -name '*.so.*' -printf '%h\n' | sort -u | tr '\n' ':')
    LD_LIBRARY_PATH=$paths ldd "$1" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$2$(dirname "${library#"$unpacked"}")"
        cp -L "$library" "$2${library#"$unpacked"}"
    done
}

# Unpacks package $1 into $2, with those libraries it depends on that are not installed.
unpack_with_libraries() {
    local package dependency
    package=$(download_package "$1" "" main "") || return 1
    dpkg-deb -x "$package" "$2"
    for dependency in $(dpkg-deb -f "$package" Pre-Depends Depends | grep -Eo '\blib[a-z0-9.+-]+'); do
        is_installed "$dependency" || [ -e "$2/usr/share/doc/$dependency" ] ||
            unpack_with_libraries "$dependency" "$2" || return 1
    done
}
