"""A rubric's call and an extractor's call, put together (RLR³, appendix C)."""

from rubricworks.verifiers.calls import VerifierCall, parse_verifier_call
from rubricworks.verifiers.failure import CannotVerify, shown
from rubricworks.verifiers.verifier_table import VERIFIERS

_FLAGS = ("use_latex", "ignore_space", "ignore_punc", "ignore_case", "ignore_st")


def run_verifier(reference_call: str, predict_call: str) -> float:
    """The score of an extracted value against the target that the extractor never saw, in [0, 1].

    The rubric's call gives the target and how to compare (`text_verify(target='Stop', ignore_case=True)`), the
    extractor's gives what the response says (`text_verify(predict='stop')`; `time_verify` also its `pformat`). An empty
    predict, '' or [], means that the response has no such value, and scores 0 whatever the target.

    Raises:
        CannotVerify: the target is missing, cannot be read, or takes too long.
        ValueError: one of the two is not a plain call of a verifier with literal keywords, they call different
            verifiers, or one holds what is the other's to give. Nothing in a call is ever evaluated.

    >>> run_verifier("expr_verify(target=r'\\\\frac{4}{6}')", "expr_verify(predict='2/3')")
    1.0
    """
    reference, answer = parse_verifier_call(reference_call), parse_verifier_call(predict_call)
    name = reference.name
    if answer.name != name:
        raise ValueError(f"the reference calls {name}, the prediction {answer.name}; both must call the same verifier")
    verifier = VERIFIERS[name]
    _refuse_others(reference, verifier.target, "reference", "the prediction")
    _refuse_others(answer, verifier.predict, "prediction", "the reference")
    if "predict" not in answer.arguments:
        raise ValueError(f"{name}: the prediction has no predict; without a value write predict='' or predict=[]")
    predict = answer.arguments["predict"]
    if predict is None or predict == () or (isinstance(predict, str) and not predict.strip()):
        return 0.0
    for argument in verifier.predict - answer.arguments.keys():
        raise ValueError(f"{name}: the prediction has no {argument}")
    arguments: dict[str, object] = {**reference.arguments, **answer.arguments}
    for argument in verifier.required:
        if argument not in arguments and "candidates" not in arguments:
            raise CannotVerify(f"{name}: the reference has no {argument}")
    for flag in _FLAGS:
        if not isinstance(arguments.get(flag, False), bool):
            raise CannotVerify(f"{name}: {flag} is {shown(arguments[flag])}, not True or False")
    return verifier.score(**arguments)


def _refuse_others(call: VerifierCall, allowed: frozenset[str], side: str, other: str) -> None:
    for argument in call.arguments:
        if argument not in allowed:
            raise ValueError(f"{call.name}: the {side} holds {argument}, which is for {other} to give")
