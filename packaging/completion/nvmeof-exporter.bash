# bash completion of nvmeof-exporter. Written by packaging/reference.py
_nvmeof_exporter() {
    local cur prev word command=serve flags
    COMPREPLY=()
    # A flag and its value may be one word; readline splits them at the equals sign.
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD-1]}
    if [[ $cur == "=" ]]; then
        cur=""
    elif [[ $prev == "=" ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    case "${COMP_WORDS[1]}" in
        serve|demo|forget|check|show|capture|drill) [[ $COMP_CWORD -gt 1 ]] && command=${COMP_WORDS[1]} ;;
    esac
    case "$command ${COMP_WORDS[2]}" in
        "drill verify"|"drill compare") [[ $COMP_CWORD -gt 2 ]] && command+=" ${COMP_WORDS[2]}" ;;
    esac
    case "$command:$prev" in
        *:--collector.links)
            COMPREPLY=($(compgen -W "paths all" -- "$cur")) ;;
        *:--log.level)
            COMPREPLY=($(compgen -W "debug info warning error" -- "$cur")) ;;
        *:--log.format)
            COMPREPLY=($(compgen -W "logfmt json" -- "$cur")) ;;
        check:-o)
            COMPREPLY=($(compgen -W "text json plugin" -- "$cur")) ;;
        check:--output)
            COMPREPLY=($(compgen -W "text json plugin" -- "$cur")) ;;
        show:-o)
            COMPREPLY=($(compgen -W "text wide json yaml" -- "$cur")) ;;
        show:--output)
            COMPREPLY=($(compgen -W "text wide json yaml" -- "$cur")) ;;
        "drill verify":-o)
            COMPREPLY=($(compgen -W "text json" -- "$cur")) ;;
        "drill verify":--output)
            COMPREPLY=($(compgen -W "text json" -- "$cur")) ;;
        *:--web.config.file|*:--path.sysfs|*:--path.procfs|*:--path.kmsg|*:--path.state|*:--config.file|demo:--demo.keep|drill:--target|drill:--report|drill:--html|"drill verify":--record|"drill compare":--html)
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -f -- "$cur")) ;;
    esac
    [[ ${#COMPREPLY[@]} -gt 0 ]] && return
    case "$command" in
        "serve") flags="--collector.kmsg --collector.links --collector.lldp --collector.netlink --collector.pcie --collector.process --collector.rdma --collector.rdma.device-exclude --collector.rdma.device-include --collector.udev --config.check --config.file --help --log.format --log.level --no-collector.kmsg --no-collector.links --no-collector.lldp --no-collector.netlink --no-collector.pcie --no-collector.process --no-collector.rdma --no-collector.udev --no-config.check --no-web.systemd-socket --path.kmsg --path.procfs --path.state --path.sysfs --poll.incident-interval --poll.interval --poll.rescan-interval --poll.slow-deadline --poll.slow-interval --stall.threshold --superseded.expiry --version --web.config.file --web.listen-address --web.max-requests --web.systemd-socket --web.telemetry-path -h" ;;
        "demo") flags="--collector.kmsg --collector.links --collector.lldp --collector.netlink --collector.pcie --collector.process --collector.rdma --collector.rdma.device-exclude --collector.rdma.device-include --collector.udev --config.check --config.file --demo.keep --demo.kernel --demo.node --demo.script --demo.speed --help --log.format --log.level --no-collector.kmsg --no-collector.links --no-collector.lldp --no-collector.netlink --no-collector.pcie --no-collector.process --no-collector.rdma --no-collector.udev --no-config.check --no-web.systemd-socket --path.kmsg --path.procfs --path.state --path.sysfs --poll.incident-interval --poll.interval --poll.rescan-interval --poll.slow-deadline --poll.slow-interval --stall.threshold --superseded.expiry --version --web.config.file --web.listen-address --web.max-requests --web.systemd-socket --web.telemetry-path -h" ;;
        "forget") flags="--collector.kmsg --collector.links --collector.lldp --collector.netlink --collector.pcie --collector.process --collector.rdma --collector.rdma.device-exclude --collector.rdma.device-include --collector.udev --config.check --config.file --help --log.format --log.level --no-collector.kmsg --no-collector.links --no-collector.lldp --no-collector.netlink --no-collector.pcie --no-collector.process --no-collector.rdma --no-collector.udev --no-config.check --no-web.systemd-socket --path.kmsg --path.procfs --path.state --path.sysfs --poll.incident-interval --poll.interval --poll.rescan-interval --poll.slow-deadline --poll.slow-interval --stall.threshold --superseded.expiry --version --web.config.file --web.listen-address --web.max-requests --web.systemd-socket --web.telemetry-path -h" ;;
        "check") flags="--collector.kmsg --collector.links --collector.lldp --collector.netlink --collector.pcie --collector.process --collector.rdma --collector.rdma.device-exclude --collector.rdma.device-include --collector.udev --config.check --config.file --help --log.format --log.level --no-collector.kmsg --no-collector.links --no-collector.lldp --no-collector.netlink --no-collector.pcie --no-collector.process --no-collector.rdma --no-collector.udev --no-config.check --no-web.systemd-socket --output --path.kmsg --path.procfs --path.state --path.sysfs --poll.incident-interval --poll.interval --poll.rescan-interval --poll.slow-deadline --poll.slow-interval --preset --stall.threshold --superseded.expiry --version --web.config.file --web.listen-address --web.max-requests --web.systemd-socket --web.telemetry-path -h -o" ;;
        "show") flags="--collector.kmsg --collector.links --collector.lldp --collector.netlink --collector.pcie --collector.process --collector.rdma --collector.rdma.device-exclude --collector.rdma.device-include --collector.udev --config.check --config.file --events --help --log.format --log.level --no-collector.kmsg --no-collector.links --no-collector.lldp --no-collector.netlink --no-collector.pcie --no-collector.process --no-collector.rdma --no-collector.udev --no-config.check --no-web.systemd-socket --output --path.kmsg --path.procfs --path.state --path.sysfs --poll.incident-interval --poll.interval --poll.rescan-interval --poll.slow-deadline --poll.slow-interval --stall.threshold --superseded.expiry --url --version --watch --web.config.file --web.listen-address --web.max-requests --web.systemd-socket --web.telemetry-path -h -o -w" ;;
        "capture") flags="--collector.kmsg --collector.links --collector.lldp --collector.netlink --collector.pcie --collector.process --collector.rdma --collector.rdma.device-exclude --collector.rdma.device-include --collector.udev --config.check --config.file --help --log.format --log.level --no-collector.kmsg --no-collector.links --no-collector.lldp --no-collector.netlink --no-collector.pcie --no-collector.process --no-collector.rdma --no-collector.udev --no-config.check --no-web.systemd-socket --path.kmsg --path.procfs --path.state --path.sysfs --poll.incident-interval --poll.interval --poll.rescan-interval --poll.slow-deadline --poll.slow-interval --redact --stall.threshold --superseded.expiry --url --version --web.config.file --web.listen-address --web.max-requests --web.systemd-socket --web.telemetry-path -h" ;;
        "drill") flags="--baseline --checkpoint-interval --checkpoint-size --collector.kmsg --collector.links --collector.lldp --collector.netlink --collector.pcie --collector.process --collector.rdma --collector.rdma.device-exclude --collector.rdma.device-include --collector.udev --config.check --config.file --destroy --device --dry-run --help --hold --html --keep --limit --log.format --log.level --manual --name --no-collector.kmsg --no-collector.links --no-collector.lldp --no-collector.netlink --no-collector.pcie --no-collector.process --no-collector.rdma --no-collector.udev --no-config.check --no-web.systemd-socket --objective --path.kmsg --path.procfs --path.state --path.sysfs --poll.incident-interval --poll.interval --poll.rescan-interval --poll.slow-deadline --poll.slow-interval --read-size --report --restore --scenario --share --stall.threshold --superseded.expiry --target --trigger --version --web.config.file --web.listen-address --web.max-requests --web.systemd-socket --web.telemetry-path --workers -h" ;;
        "drill verify") flags="--help --output --record -h -o" ;;
        "drill compare") flags="--help --html -h" ;;
    esac
    case "$command" in
        drill) [[ $COMP_CWORD -eq 2 ]] && flags="verify compare $flags" ;;
    esac
    if [[ $COMP_CWORD -eq 1 ]]; then flags="serve demo forget check show capture drill $flags"; fi
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
}
complete -F _nvmeof_exporter nvmeof-exporter
