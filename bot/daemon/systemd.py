"""Tells systemd, or any supervisor that speaks the sd_notify protocol, about readiness and life."""

import socket

import structlog

log = structlog.get_logger(__name__)


class SystemdNotifier:
    """Sends states such as READY=1, WATCHDOG=1 and STOPPING=1 to the datagram socket at ``address``, if there is one.

    An address that begins with ``@`` is in Linux's abstract namespace. Source: sd_notify(3).
    """

    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address
        self._logged_failure = False

    def notify(self, state: str) -> None:
        """Send the state; a supervisor that does not listen is logged once and is no reason to stop."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.settimeout(0)
                line.sendto(state.encode(), self._address)
        except OSError as error:
            if not self._logged_failure:
                log.warning("supervisor does not listen", state=state, error=str(error))
            self._logged_failure = True
        else:
            self._logged_failure = False
