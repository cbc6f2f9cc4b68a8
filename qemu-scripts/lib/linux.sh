# shellcheck shell=bash
# The Linux guest to compare with: Debian's kernel, and a RAM file system of
# busybox, the e1000 driver, netserver, netperf and ethtool. Sourced by setup.

need_linux_peer() {
    local folder=$CACHE/linux-peer new key version
    local init=$ROOT/qemu-scripts/lib/linux-init
    key=$(cat "$init" "$ROOT/qemu-scripts/lib/linux.sh" "$(command -v netserver)" \
        "$(command -v netperf)" | sha256sum)
    [ -f "$folder/key" ] && [ "$(<"$folder/key")" = "$key" ] && return 0

    is_debian || die "the Linux guest is made of Debian's packages linux-image-amd64,
busybox-static, ethtool and libmnl0; put a kernel as vmlinuz and a RAM file system as initrd into $folder"
    say "making the Linux guest (downloads 70 MB, once)"
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
    dpkg-deb --fsys-tarfile "$kernel" |
        tar -x -C "$new/kernel" --wildcards './boot/vmlinuz-*' '*/intel/e1000/e1000.ko*'
    cp "$new"/kernel/boot/vmlinuz-* "$new/peer/vmlinuz"
    dpkg-deb -x "$busybox" "$new/busybox"
    cp "$(find "$new/busybox" -name busybox -type f -perm -100)" "$new/root/bin/busybox"
    find "$new/kernel" -name 'e1000.ko*' -exec /usr/lib/apt/apt-helper cat-file {} + \
        >"$new/root/lib/e1000.ko"
    dpkg-deb -x "$ethtool" "$new/ethtool"
    dpkg-deb -x "$libmnl" "$new/ethtool"
    cp "$(find "$new/ethtool" -path '*/sbin/ethtool' -type f)" "$new/root/bin/"
    cp "$(find "$new/ethtool" -name 'libmnl.so.0.*' -type f)" "$new/root/lib/libmnl.so.0"
    for program in netserver netperf; do
        cp "$(command -v $program)" "$new/root/bin/"
        # Its libraries, at the paths it looks for them.
        ldd "$(command -v $program)" | grep -o '/[^ ]*' | while read -r library; do
            mkdir -p "$new/root${library%/*}"
            cp -L "$library" "$new/root$library"
        done
    done
    install -m 755 "$init" "$new/root/init"
    (cd "$new/root" && find . | "$new/root/bin/busybox" cpio -o -H newc) 2>/dev/null |
        gzip -1 >"$new/peer/initrd"
    printf '%s' "$key" >"$new/peer/key"
    mkdir -p "$CACHE"
    rm -rf "$folder" "$folder.new"
    cp -r "$new/peer" "$folder.new"
    mv "$folder.new" "$folder"
}
