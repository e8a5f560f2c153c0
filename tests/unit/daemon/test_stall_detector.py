from bot.daemon.health import StallDetector


def test_silence_is_counted_in_looks_without_a_new_sign() -> None:
    silence = StallDetector(5.0)
    assert [silence.update(signs) for signs in (0, 0, 0, 1, 1, 2)] == [0.0, 5.0, 10.0, 0.0, 5.0, 0.0]


def test_a_first_look_finds_no_silence_whatever_the_count() -> None:
    assert StallDetector(5.0).update(17) == 0.0
