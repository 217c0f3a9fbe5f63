#!/bin/sh
# Makes disk images of Debian with cloud-init, one for each renderer named: debian_images.sh FOLDER RENDERER...
# Each image boots with BIOS, has cloud-init, sshd, QEMU's guest agent, ifupdown, netplan, NetworkManager and systemd-networkd, and starts
# the one that its renderer writes for. Prints nothing; exits with 77 where the packages cannot be had.
set -eu
folder=$1
shift
export DEBIAN_FRONTEND=noninteractive PATH="$PATH:/usr/sbin:/sbin"
tools="mmdebstrap grub-pc-bin grub-common fdisk e2fsprogs"
# shellcheck disable=SC2086
{ command -v mmdebstrap && command -v grub-mkimage && command -v sfdisk && command -v mke2fs; } > /dev/null ||
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends $tools; } > /dev/null 2>&1 || exit 77
root=$folder/root
packages=linux-image-cloud-amd64,systemd-sysv,systemd-resolved,dbus,udev,cloud-init,openssh-server,iproute2
packages=$packages,qemu-guest-agent,ifupdown,isc-dhcp-client,netplan.io,network-manager
mmdebstrap --mode=root --variant=minbase --include="$packages" --components=main bookworm "$root" \
    > "$folder/mmdebstrap.log" 2>&1 || exit 77
mkdir -p "$root/boot/grub" "$root/etc/cloud/cloud.cfg.d"
cat > "$root/boot/grub/grub.cfg" << 'END'
linux /vmlinuz root=/dev/vda1 rw console=ttyS0 net.ifnames=1
initrd /initrd.img
boot
END
echo 'datasource_list: [NoCloud]' > "$root/etc/cloud/cloud.cfg.d/90-datasource.cfg"
echo '/dev/vda1 / ext4 defaults 0 1' > "$root/etc/fstab"
: > "$root/etc/machine-id"
grub-mkimage --format i386-pc --output "$folder/core.img" --prefix '(hd0,msdos1)/boot/grub' \
    biosdisk part_msdos ext2 linux normal configfile
services="networking NetworkManager systemd-networkd"
for renderer in "$@"; do
    case $renderer in
        eni) service=networking ;;
        network-manager) service=NetworkManager ;;
        *) service=systemd-networkd ;;
    esac
    for other in $services; do ln -sfn /dev/null "$root/etc/systemd/system/$other.service"; done
    rm "$root/etc/systemd/system/$service.service"
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
    rm -f "$root/etc/systemd/system/multi-user.target.wants/chosen-network.service"
    unit=$(find "$root/lib/systemd/system" "$root/usr/lib/systemd/system" -name "$service.service" | head -n 1)
    ln -sfn "${unit#"$root"}" "$root/etc/systemd/system/multi-user.target.wants/$service.service"
    echo "system_info: {network: {renderers: [$renderer]}}" > "$root/etc/cloud/cloud.cfg.d/95-renderer.cfg"
    rm -f "$folder/partition"
    truncate --size 1500M "$folder/partition"
    mke2fs -q -t ext4 -d "$root" "$folder/partition"
    image=$folder/$renderer.raw
    truncate --size 1502M "$image"
    echo 'start=2048, type=83, bootable' | sfdisk --quiet "$image"
    dd if=/usr/lib/grub/i386-pc/boot.img of="$image" bs=440 count=1 conv=notrunc status=none
    dd if="$folder/core.img" of="$image" bs=512 seek=1 conv=notrunc status=none
    dd if="$folder/partition" of="$image" bs=1M seek=1 conv=notrunc,sparse status=none
    rm "$root/etc/systemd/system/multi-user.target.wants/$service.service"
done
rm -rf "$root" "$folder/partition"
