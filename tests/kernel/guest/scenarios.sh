# One Python process for every scenario, then power-off.
. "$1"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root TERM=dumb LC_ALL=C.UTF-8 PYTHONPATH="$LAB_CHECKOUT" PYTHONDONTWRITEBYTECODE=1
cd "$LAB_CHECKOUT" || exit 1
"$LAB_PYTHON" -u -m tests.kernel.guest.run >"$LAB_OUTPUT/run.log" 2>&1
dmesg >"$LAB_OUTPUT/kernel.log"
sync
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
