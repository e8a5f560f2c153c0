"""The JSON rows of the fake Manifold's responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.simulator.venues.manifold_state import (
    TRADED_BY_ANSWER,
    FakeManifoldAnswer,
    FakeManifoldBet,
    FakeManifoldComment,
    FakeManifoldHolding,
    FakeManifoldMarket,
    FakeManifoldState,
    FakeManifoldUser,
)

ResponseRow = dict[str, Any]
NO_FEES = {"creatorFee": 0, "platformFee": 0, "liquidityFee": 0}
_PRICED_TYPES = frozenset({"BINARY", "PSEUDO_NUMERIC"})


def without_none(**fields: object) -> ResponseRow:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def user_row(user: FakeManifoldUser, *, base: str) -> ResponseRow:
    """A user as everybody sees it."""
    return {
        "id": user.id,
        "createdTime": user.created,
        "name": user.username.title(),
        "username": user.username,
        "url": f"{base}/{user.username}",
        "avatarUrl": user.avatar,
        "balance": user.balance,
        "cashBalance": 0,
        "totalDeposits": 0,
        "isBot": user.is_bot,
        "isAdmin": False,
        "isTrustworthy": False,
        "userDeleted": False,
    }


def day_volume(state: FakeManifoldState, market: FakeManifoldMarket, now: int) -> float:
    """Return what was bet in the last 24 hours."""
    return sum(abs(bet.amount) for bet in state.bets_on(market.id) if bet.created > now - 86_400_000)


def lite_row(state: FakeManifoldState, market: FakeManifoldMarket, now: int, *, base: str) -> ResponseRow:
    """A LiteMarket."""
    creator = state.users[market.creator]
    closes = market.closes
    if market.resolution_time is not None:
        closes = market.resolution_time if closes is None else min(closes, market.resolution_time)
    return {
        **without_none(
            id=market.id,
            creatorId=creator.id,
            creatorUsername=creator.username,
            creatorName=creator.username.title(),
            creatorAvatarUrl=creator.avatar,
            createdTime=market.created,
            closeTime=closes,
            question=market.question,
            slug=market.slug,
            url=f"{base}/{creator.username}/{market.slug}",
            outcomeType=market.type,
            mechanism=market.mechanism,
            volume=market.volume,
            volume24Hours=day_volume(state, market, now),
            isResolved=market.resolved,
            resolution=market.resolution,
            resolutionTime=market.resolution_time,
            resolutionProbability=market.resolution_prob,
            resolverId=market.resolver,
            uniqueBettorCount=len(market.bettors),
            lastUpdatedTime=market.updated or None,
            lastBetTime=market.last_bet,
            lastCommentTime=market.last_comment,
            token=market.token,
        ),
        **_price_fields(market),
    }


def full_row(state: FakeManifoldState, market: FakeManifoldMarket, now: int, *, base: str) -> ResponseRow:
    """A FullMarket."""
    row = lite_row(state, market, now, base=base)
    row["description"] = {
        "type": "doc",
        "content": [{"type": "paragraph", "content": [{"type": "text", "text": market.description}]}],
    }
    row["textDescription"] = market.description
    row["groupSlugs"] = list(market.groups)
    if market.type in TRADED_BY_ANSWER:
        row["answers"] = [_answer_row(market, answer) for answer in market.answers]
        row["shouldAnswersSumToOne"] = market.sums_to_one
        row["addAnswersMode"] = "DISABLED"
    return {**row, **market.more}


def raw_answer(market: FakeManifoldMarket, answer: FakeManifoldAnswer) -> ResponseRow:
    """An answer as stored in the database. After a resolution of the whole market ``prob`` is the payout of YES."""
    return without_none(
        id=answer.id,
        index=answer.index,
        contractId=market.id,
        userId=answer.user,
        text=answer.text,
        createdTime=answer.created,
        poolYes=answer.pool.yes,
        poolNo=answer.pool.no,
        prob=settled_prob(answer),
        totalLiquidity=answer.liquidity,
        subsidyPool=0,
        volume=answer.volume,
        probChanges={"day": 0, "week": 0, "month": 0},
        isOther=answer.is_other,
        midpoint=answer.midpoint,
        resolution=answer.resolution,
        resolutionTime=answer.resolution_time,
        resolutionProbability=answer.resolution_prob,
    )


def settled_prob(answer: FakeManifoldAnswer) -> float:
    """Return the price of an answer, or its payout once the whole market is resolved."""
    if answer.payout is not None:
        return answer.payout
    if answer.resolution in {"YES", "NO"}:
        return 1.0 if answer.resolution == "YES" else 0.0
    if answer.resolution == "MKT" and answer.resolution_prob is not None:
        return answer.resolution_prob
    return answer.pool.prob


def prob_row(market: FakeManifoldMarket) -> ResponseRow:
    """The response to a request for prices."""
    if market.type in TRADED_BY_ANSWER:
        return {"answerProbs": {answer.id: settled_prob(answer) for answer in market.answers}}
    return {"prob": market.pool.prob}


def raw_market(market: FakeManifoldMarket) -> ResponseRow:
    """The part of a market that is broadcast when it changes."""
    scale: Mapping[str, Any] = {}
    if market.scale is not None:
        scale = {"min": market.scale.low, "max": market.scale.high, "isLogScale": market.scale.is_log}
    pool = {"pool": {"YES": market.pool.yes, "NO": market.pool.no}, "p": market.pool.p, "prob": market.pool.prob}
    return {
        **without_none(
            id=market.id,
            slug=market.slug,
            question=market.question,
            outcomeType=market.type,
            mechanism=market.mechanism,
            volume=market.volume,
            closeTime=market.closes,
            isResolved=market.resolved,
            resolution=market.resolution,
            resolutionTime=market.resolution_time,
            resolutionProbability=market.resolution_prob,
            lastUpdatedTime=market.updated or None,
            resolutions={answer.id: answer.payout * 100 for answer in market.answers if answer.payout} or None,
        ),
        **(pool if market.mechanism == "cpmm-1" else {}),
        **scale,
    }


def bet_row(bet: FakeManifoldBet, now: int) -> ResponseRow:
    """A bet in a list."""
    return {"id": bet.id, "userId": bet.user, **_bet_fields(bet, now)}


def placed_row(bet: FakeManifoldBet, now: int, *, bet_id: str) -> ResponseRow:
    """The answer to a bet: ``betId``, and neither ``id`` nor ``userId``."""
    return {**_bet_fields(bet, now), "betId": bet_id}


def comment_row(state: FakeManifoldState, comment: FakeManifoldComment) -> ResponseRow:
    """A comment."""
    user = state.users[comment.user]
    market = state.markets[comment.market]
    return without_none(
        id=comment.id,
        contractId=comment.market,
        contractSlug=market.slug,
        contractQuestion=market.question,
        commentType="contract",
        content=comment.content,
        createdTime=comment.created,
        userId=user.id,
        userName=user.username.title(),
        userUsername=user.username,
        userAvatarUrl=user.avatar,
        replyToCommentId=comment.reply_to,
        answerOutcome=comment.answer,
        isApi=True,
        visibility="public",
    )


def metric_row(state: FakeManifoldState, market: FakeManifoldMarket, user: str, answer: str | None) -> ResponseRow:
    """A user's position; in a market with answers ``answer`` None is the summary.

    By the venue's formula (``calculateProfitMetricsAtProbOrCancel`` in its public ``common/src/calculate-metrics.ts``):
    less than a share of each side is worth nothing, and a cancelled market gives no gain.
    """
    mine = [(of, holding) for who, of, holding in state.holdings_of(market.id) if who == user and answer in {None, of}]
    held = [holding for _, holding in mine]
    yes, no = sum(holding.yes for holding in held), sum(holding.no for holding in held)
    worth = sum(_holding_value(market, of, holding) for of, holding in mine)
    profit = sum(
        0.0 if _is_cancelled(market, of) else _holding_value(market, of, one) + one.sold - one.bought
        for of, one in mine
    )
    invested, bought = sum(sum(one.costs.values()) for one in held), sum(one.bought for one in held)
    shares = {name: value for name, value in (("YES", yes), ("NO", no)) if value > 1e-8}
    return {
        "contractId": market.id,
        "userId": user,
        "answerId": answer,
        "totalShares": shares,
        "hasShares": bool(shares),
        "hasYesShares": "YES" in shares,
        "hasNoShares": "NO" in shares,
        "maxSharesOutcome": max(shares, key=lambda name: shares[name]) if shares else None,
        "invested": invested,
        "payout": worth,
        "profit": profit,
        "profitPercent": 0 if not bought else 100 * profit / bought,
        "totalAmountInvested": bought,
        "totalAmountSold": sum(one.sold for one in held),
        "loan": sum(one.loan for one in held),
        "marginLoan": sum(one.margin for one in held),
        "lastBetTime": max((holding.last for holding in held), default=0),
    }


def _is_cancelled(market: FakeManifoldMarket, answer: str | None) -> bool:
    found = market.answer(answer)
    return "CANCEL" in {market.resolution, None if found is None else found.resolution}


def _holding_value(market: FakeManifoldMarket, answer: str | None, holding: FakeManifoldHolding) -> float:
    if _is_cancelled(market, answer):
        return sum(holding.costs.values())
    if max(holding.yes, holding.no) < 1.0:
        return 0.0
    prob = _current_price(market, answer)
    return holding.yes * prob if holding.yes >= holding.no else holding.no * (1.0 - prob)


def _current_price(market: FakeManifoldMarket, answer: str | None) -> float:
    """Return the price, or the payout of YES once that is known."""
    found = market.answer(answer)
    if found is not None:
        return settled_prob(found)
    if market.resolution in {"YES", "NO"}:
        return 1.0 if market.resolution == "YES" else 0.0
    return market.pool.prob if market.resolution_prob is None else market.resolution_prob


def _price_fields(market: FakeManifoldMarket) -> ResponseRow:
    if market.mechanism != "cpmm-1":
        return {}
    row: ResponseRow = {
        "pool": {"YES": market.pool.yes, "NO": market.pool.no},
        "p": market.pool.p,
        "totalLiquidity": market.liquidity,
    }
    if market.type in _PRICED_TYPES:
        row["probability"] = market.pool.prob
    if market.scale is not None:
        row["value"] = market.scale.value(market.pool.prob)
        row.update(min=market.scale.low, max=market.scale.high, isLogScale=market.scale.is_log)
    return row


def _answer_row(market: FakeManifoldMarket, answer: FakeManifoldAnswer) -> ResponseRow:
    """An answer of a FullMarket: its price is the pool's, also after a resolution of the whole market."""
    row = raw_answer(market, answer)
    del row["poolYes"], row["poolNo"], row["prob"]
    return {**row, "pool": {"YES": answer.pool.yes, "NO": answer.pool.no}, "probability": answer.pool.prob}


def _bet_fields(bet: FakeManifoldBet, now: int) -> ResponseRow:
    return without_none(
        contractId=bet.market,
        answerId=bet.answer,
        outcome=bet.outcome,
        amount=bet.amount,
        orderAmount=bet.order_amount,
        shares=bet.shares,
        limitProb=bet.limit,
        isFilled=bet.is_filled,
        isCancelled=bet.cancelled(now),
        fills=[dict(fill) for fill in bet.fills],
        probBefore=bet.prob_before,
        probAfter=bet.prob_after,
        fees=NO_FEES,
        loanAmount=0,
        createdTime=bet.created,
        updatedTime=bet.updated,
        expiresAt=bet.expires,
        isRedemption=bet.is_redemption,
        isApi=bet.is_api,
        visibility="public",
        betGroupId=bet.group,
        replyToCommentId=bet.reply_to,
    )
