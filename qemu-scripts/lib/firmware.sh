# shellcheck shell=bash
# The firmware that Myri-10G NICs are given by their driver, from Debian's package
# firmware-myricom: as files for the Linux guest, and as one archive that is loaded
# beside the image. Sourced by setup.

# For hosts whose PCI Express completions come aligned, and for the others.
MYRI10GE_FIRMWARE='myri10ge_eth_z8e.dat myri10ge_ethp_z8e.dat'

# Gets it into $CACHE/myri10ge. Where it cannot be had, only these NICs go without.
want_myri10ge_firmware() {
    local folder=$CACHE/myri10ge component package= name
    [ ! -f "$folder/firmware.cpio" ] || return 0
    if ! is_debian; then
        say "Myri-10G NICs want firmware: make $folder/firmware.cpio, an archive (cpio -o -H newc)
of $MYRI10GE_FIRMWARE, which are in linux-firmware and in Debian's firmware-myricom"
        return 0
    fi
    say "getting the firmware of Myri-10G NICs (downloads 1 MB, once)"
    for component in non-free-firmware non-free; do
        package=$(download_package firmware-myricom "" $component "") && break
    done
    if [ -z "$package" ]; then
        say "no mirror of this machine has firmware-myricom: Myri-10G NICs will only have the
firmware that they run already"
        return 0
    fi
    dpkg-deb -x "$package" "$WORK/firmware"
    mkdir -p "$folder"
    for name in $MYRI10GE_FIRMWARE; do
        cp "$(find "$WORK/firmware" -name "$name" -type f)" "$folder/"
    done
    (cd "$folder" && printf '%s\n' $MYRI10GE_FIRMWARE | cpio --quiet -o -H newc) >"$folder/firmware.cpio.new"
    mv "$folder/firmware.cpio.new" "$folder/firmware.cpio"
}
