"""What the author of a notifier uses.

Called in this order: ``open``, ``notify``.

``NotifierSpec.open`` is entered once; then ``NotificationChannel.notify`` is called for each message that a person
should get. It delivers or raises, and the engine repeats what was raised later.
"""

from bot.core.alerts import AlertLevel, NotificationMessage
from bot.core.interfaces import NotificationChannel
from bot.core.plugin_specs import NotifierSpec

__all__ = [
    "AlertLevel",
    "NotificationChannel",
    "NotificationMessage",
    "NotifierSpec",
]
