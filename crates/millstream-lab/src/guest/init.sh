#!/bin/busybox sh
# The first program of a guest. It runs what /work.sh says, sends the record through the second serial port, and ends
# the machine. The server's data are on a disk, if the kernel has what that takes; everything else is in memory.
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /data /out
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ MILLSTREAM_HOME=/data
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t debugfs debugfs /sys/kernel/debug
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
. /work.sh
disk
if [ -b /dev/vda ] && mke2fs -F /dev/vda >/dev/null && { mount -t ext4 /dev/vda /data || mount -t ext2 /dev/vda /data; }
then
    chmod 755 /data
else
    echo "no disk: the data are in memory"
    mount -t tmpfs -o mode=755,size=75% tmpfs /data
fi
ip link set lo up
# If the lab is killed, nobody else ends this machine.
(sleep "$seconds"; reboot -f) &
prepare && work
echo "exit code $?"
cat /out/record.json >/dev/ttyS1
reboot -f
