"""The only code that touches the machine: files of /sys and /proc, and kernel events."""
