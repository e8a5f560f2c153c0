from bot.core.language_models import Message, MessageRole, Prompt
from bot.core.redaction import register_secrets, temporary_secrets
from bot.llm.gateway import PromptRedactor

KEY = "sk-a1b2c3d4e5f6g7h8i9j0"  # of no vendor
PROMPT = Prompt(messages=(Message(speaker=MessageRole.USER, text=f"the key is {KEY}, they say"),))


def test_a_message_that_was_sent_before_is_searched_again_once_another_secret_is_known() -> None:
    redactor = PromptRedactor()
    assert redactor.redact(PROMPT) is PROMPT
    with temporary_secrets():
        register_secrets(KEY)
        hidden = redactor.redact(PROMPT)
        assert KEY not in hidden.messages[0].text
        assert redactor.redact(PROMPT).messages[0] is hidden.messages[0]


def test_a_message_is_searched_once_however_many_conversations_are_under_way_and_then_forgotten() -> None:
    redactor = PromptRedactor()
    with temporary_secrets():
        register_secrets(KEY)
        prompts = [
            Prompt(messages=(Message(speaker=MessageRole.USER, text=f"{number}: the key is {KEY}, they say"),))
            for number in range(3000)
        ]
        hidden = [redactor.redact(prompt).messages[0] for prompt in prompts]
        again = [redactor.redact(prompt).messages[0] for prompt in prompts]
        assert all(one is other for one, other in zip(hidden, again, strict=True))
        assert len(redactor._known) == 3000  # noqa: SLF001 - what is remembered shows nowhere else
        del prompts
        assert len(redactor._known) == 0  # noqa: SLF001 - as above
