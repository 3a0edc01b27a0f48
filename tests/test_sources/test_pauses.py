from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.hardware import Pause
from nvmeof_exporter.sources.pauses import is_pause, pauses

DRIVERS = {
    "mlx5 with priority pause": (
        {
            "rx_pause_ctrl_phy": 0,
            "tx_pause_ctrl_phy": 0,
            "tx_pause_storm_warning_events": 9,
            "rx_prio3_bytes": 9,
            "rx_prio3_pause": 120,
            "rx_prio3_pause_duration": 1500,
            "rx_prio3_pause_transition": 60,
            "tx_prio3_pause": 4,
            "tx_prio3_pause_duration": 2_000_000,
        },
        (
            Pause("rx", "", 0),
            Pause("tx", "", 0),
            Pause("rx", "3", 120, 0.0015),
            Pause("tx", "3", 4, 2.0),
        ),
    ),
    "mlx5 with global pause": (
        {
            "rx_pause_ctrl_phy": 11,
            "tx_pause_ctrl_phy": 22,
            "rx_global_pause": 10,
            "rx_global_pause_duration": 500_000,
            "rx_global_pause_transition": 5,
        },
        (Pause("rx", "", 10, 0.5), Pause("tx", "", 22)),
    ),
    "mlx4": (
        {
            "rx_pause": 1,
            "rx_pause_duration": 9,
            "rx_pause_prio_3": 14812,
            "rx_pause_duration_prio_3": 0,
            "tx_pause_prio_3": 0,
            "tx_pause_duration_prio_3": 47848,
            "tx_pause_transition_prio_3": 7406,
        },
        (Pause("rx", "", 1), Pause("rx", "3", 14812), Pause("tx", "3", 0)),
    ),
    "bnxt": (
        {
            "rx_pause_frames": 1,
            "tx_pause_frames": 2,
            "rx_pfc_frames": 9,
            "rx_pfc_ena_frames_pri5": 7,
            "tx_pfc_ena_frames_pri5": 8,
            "pfc_pri5_rx_duration_us": 250,
            "pfc_pri5_rx_transitions": 9,
            "continuous_pause_events": 9,
        },
        (
            Pause("rx", "", 1),
            Pause("tx", "", 2),
            Pause("rx", "5", 7, 0.00025),
            Pause("tx", "5", 8),
        ),
    ),
    "ice": (
        {
            "link_xon_rx.nic": 9,
            "link_xoff_rx.nic": 1,
            "link_xoff_tx.nic": 2,
            "tx_priority_0_xon.nic": 9,
            "tx_priority_0_xoff.nic": 3,
            "rx_priority_0_xon.nic": 9,
            "rx_priority_0_xoff.nic": 4,
        },
        (Pause("rx", "", 1), Pause("tx", "", 2), Pause("rx", "0", 4), Pause("tx", "0", 3)),
    ),
    "i40e": (
        {
            "port.link_xon_rx": 9,
            "port.link_xoff_rx": 1,
            "port.rx_priority_2_xon_rx": 9,
            "port.rx_priority_2_xoff_rx": 3,
            "port.tx_priority_2_xoff_tx": 4,
            "port.rx_priority_2_xon_2_xoff": 9,
        },
        (Pause("rx", "", 1), Pause("rx", "2", 3), Pause("tx", "2", 4)),
    ),
    "i40e of old": (
        {"port.rx_priority_2_xoff": 3, "port.rx_priority_2_xon_2_xoff": 9},
        (Pause("rx", "2", 3),),
    ),
    "ixgbe": (
        {
            "rx_flow_control_xon": 9,
            "rx_flow_control_xoff": 1,
            "tx_pb_6_pxon": 9,
            "tx_pb_6_pxoff": 2,
        },
        (Pause("rx", "", 1), Pause("tx", "6", 2)),
    ),
    "cxgb4": (
        {"rx_pause_frames": 1, "rx_ppp7_frames": 2, "tx_ppp7_frames": 3},
        (Pause("rx", "", 1), Pause("rx", "7", 2), Pause("tx", "7", 3)),
    ),
    "qede": (
        {"rx_pause_frames": 1, "tx_pause_frames": 2, "rx_pfc_frames": 9},
        (Pause("rx", "", 1), Pause("tx", "", 2)),
    ),
    "hns3": (
        {
            "mac_rx_mac_pause_num": 1,
            "mac_rx_pfc_pkt_num": 9,
            "mac_rx_pfc_pri4_pkt_num": 2,
            "mac_tx_pfc_pri4_pkt_num": 3,
            "mac_rx_pfc_pri4_xoff_time": 9,
        },
        (Pause("rx", "", 1), Pause("rx", "4", 2), Pause("tx", "4", 3)),
    ),
    "nfp": (
        {"mac.rx_pause_frames_class1": 1, "mac.rx_pause_mac_ctrl_frames": 9},
        (Pause("rx", "1", 1),),
    ),
    "ionic": (
        {"frames_rx_pause": 1, "frames_rx_pripause": 9, "frames_tx_pause": 2},
        (Pause("rx", "", 1), Pause("tx", "", 2)),
    ),
    "virtio_net": ({"rx0_packets": 1, "rx_drops": 2}, ()),
    "ena": ({"tx_timeout": 1, "queue_0_tx_cnt": 2}, ()),
}


class TestPauses:
    @pytest.mark.parametrize("driver", DRIVERS)
    def test_are_found_by_the_names_of_the_driver(self, driver: str) -> None:
        statistics, expected = DRIVERS[driver]
        assert pauses(statistics.items()) == expected

    @pytest.mark.parametrize("driver", DRIVERS)
    def test_do_not_depend_on_the_order_of_the_statistics(self, driver: str) -> None:
        statistics, expected = DRIVERS[driver]
        assert pauses(reversed(list(statistics.items()))) == expected

    @pytest.mark.parametrize("driver", DRIVERS)
    def test_are_the_same_when_chosen_by_name_before(self, driver: str) -> None:
        statistics, expected = DRIVERS[driver]
        chosen = [(name, value) for name, value in statistics.items() if is_pause(name)]
        assert pauses(chosen) == expected

    def test_of_frames_that_are_not_counted_have_their_time(self) -> None:
        assert pauses([("rx_prio0_pause_duration", 1)]) == (Pause("rx", "0", None, 1e-6),)

    @given(
        st.lists(
            st.tuples(
                st.text(max_size=31)
                | st.sampled_from([name for names, _ in DRIVERS.values() for name in names]),
                st.integers(0, 2**64 - 1),
            )
        )
    )
    def test_are_one_for_each_priority_and_direction(
        self, statistics: list[tuple[str, int]]
    ) -> None:
        found = pauses(statistics)
        keys = [(pause.priority, pause.direction) for pause in found]
        assert keys == sorted(set(keys))
        assert all(pause.direction in {"rx", "tx"} for pause in found)
        assert all(pause.frames is not None or pause.seconds is not None for pause in found)
        assert bool(found) == any(is_pause(name) for name, _ in statistics)
