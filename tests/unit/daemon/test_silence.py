from bot.daemon.silence import Silence


def test_silence_is_counted_in_looks_without_a_new_sign() -> None:
    silence = Silence(5.0)
    assert [silence.look(signs) for signs in (0, 0, 0, 1, 1, 2)] == [0.0, 5.0, 10.0, 0.0, 5.0, 0.0]


def test_a_first_look_finds_no_silence_whatever_the_count() -> None:
    assert Silence(5.0).look(17) == 0.0
