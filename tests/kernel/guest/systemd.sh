# Read by init.sh: hands over to systemd, which runs the scenarios as a service of its own.
# All that this machine would start is taken out of the guest's view of it; what the exporter's
# unit asks for stays.
system=/lib/systemd/system
rm -rf $system/*.wants $system/*.requires /etc/systemd/system /lib/systemd/system-generators
mkdir -p /etc/systemd/system /run/systemd/system
: >/etc/fstab
# Nor is the guest the container that this machine may be.
rm -f /.dockerenv /run/.containerenv /usr/sbin/policy-rc.d
echo 6c61620000000000000000006c616200 >/etc/machine-id

# Compiling takes minutes in here. The host has done it, with the same interpreter.
cat >/usr/local/bin/py3compile <<END
#!/bin/sh
tar --extract --file "$LAB_PACKAGE/compiled.tar" --directory "\$1"
END
chmod 755 /usr/local/bin/py3compile

cat >/run/systemd/system/lab.target <<END
[Unit]
DefaultDependencies=no
Wants=systemd-journald.service
Requires=lab.service
END
cat >/run/systemd/system/lab.service <<END
[Unit]
DefaultDependencies=no
After=systemd-journald.service

[Service]
ExecStart=/bin/sh "$guest/scenarios.sh" "$1"
TimeoutStartSec=infinity
END

# systemd has deadlines for what it starts, and reads it from the host: no clock may leap.
chrt --idle 0 sh -c 'while :; do :; done' &
echo $! >/run/busy.pid
exec /lib/systemd/systemd --system --unit=lab.target --log-target=console --show-status=no
