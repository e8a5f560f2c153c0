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
