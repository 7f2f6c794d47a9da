"""Risk-averse quantal response equilibria in five short scenes: solve, learn, certify, differentiate, fit."""

import numpy as np

from palestra.envs.games import NormalForm, cliff_pair, selten_chmura
from palestra.learn.equilibria import RQEValueIteration, certify_2x2, fit_rqe, rqe, rqe_gradients


def main() -> None:
    """Run the scenes and print what they found."""
    game = selten_chmura(7)
    tau, eps = game.fits["kl"]  # published traits: ((tau1, tau2), (eps1, eps2))
    exact = rqe(game, tau, eps)
    print(exact)
    print("observed (Up, Left):", game.observed)

    learned = rqe(game, tau, eps, method="no_regret", tol=1e-8)
    print(
        "no-regret play needed",
        learned.iterations,
        "steps, distance",
        abs(learned.policies[0] - exact.policies[0]).max(),
    )

    print("proved unique:", certify_2x2(game, tau, eps).unique)
    slopes = rqe_gradients(game, tau, eps)
    print("d P(Up) / d eps_row:", slopes.by_eps[0][0, 0])

    mine = NormalForm([[[3, 0, 1], [1, 2, 0]], [[0, 2, 1], [2, 0, 1]]], name="my 2x3 game")
    fit = fit_rqe(mine, [[55, 45], [20, 30, 50]], traits="common")
    print(fit)

    solution = RQEValueIteration(cliff_pair(), 0.1, 10, horizon=15).solve()
    values, policies = solution.at(((1, 0), (1, 3)))
    print("cliff pair from (1,0), (1,3): values", values.round(5), "first policy", np.round(policies[0], 3))


if __name__ == "__main__":
    main()
