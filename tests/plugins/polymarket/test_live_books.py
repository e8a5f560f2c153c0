"""Books as the socket tells them, frame by frame."""

from plugins.polymarket.live_books import LiveBooks
from tests.plugins.polymarket.records import token
from tests.plugins.polymarket.test_price_feed import change, whole


def test_pm_c5_a_frame_that_says_nothing_new_does_not_count_as_a_sign_of_life() -> None:
    books = LiveBooks()
    books.forget_books([token(1)], now_s=0.0)
    books.apply_message(whole(5), now_s=5.0)
    books.apply_message(change(6, "BUY", "0.37", "9"), now_s=6.0)
    for text in (whole(5), whole(6), change(6, "BUY", "0.37", "9"), change(4, "BUY", "0.37", "9")):
        books.apply_message(text, now_s=50.0)
    assert books.silent_tokens([token(1)], since_s=20.0) == [token(1)]
    books.apply_message(change(7, "BUY", "0.36", "9"), now_s=60.0)
    assert books.silent_tokens([token(1)], since_s=20.0) == []
