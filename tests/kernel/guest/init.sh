# The guest's first process: mounts, modules, then the scenarios, under systemd if wanted.
. "$1"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
release=$(uname -r)
mkdir -p /dev/shm /dev/pts "/lib/modules/$release"
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount --bind "$LAB_MODULES" "/lib/modules/$release"
modprobe configfs
mount -t configfs none /sys/kernel/config
ip link set lo up
guest=$LAB_CHECKOUT/tests/kernel/guest
[ -z "$LAB_PACKAGE" ] || . "$guest/systemd.sh"
exec /bin/sh "$guest/scenarios.sh" "$1"
