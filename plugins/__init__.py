"""The plugins that come with Foxcast; each imports bot.api and itself, and none is loaded before config names it."""
