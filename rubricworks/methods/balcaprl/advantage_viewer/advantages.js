// Advantages of one group's rollouts, as rubricworks.rl computes them: standard deviations with ddof = 1, 1e-4 added.
// `rewards` holds a row per rollout with K numbers, or null where the rollout could not be judged: it leaves the
// statistics and gets 0.

const EPS = 1e-4;
const ROUNDING = 4;

/** Count, mean and sum of squared deviations of some numbers. */
function momentsOf(values) {
  const count = values.length;
  const mean = count ? values.reduce((sum, value) => sum + value, 0) / count : 0;
  return { count, mean, squares: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) };
}

/** Of two sets of numbers together. */
function joinedMoments(one, other) {
  const count = one.count + other.count;
  if (!count) return one;
  const apart = other.mean - one.mean;
  return {
    count,
    mean: one.mean + (apart * other.count) / count,
    squares: one.squares + other.squares + (apart * apart * one.count * other.count) / count,
  };
}

function deviationOf({ count, squares }) {
  return Math.sqrt(squares / Math.max(1, count - 1));
}

/** GRPO: the rewards are summed by weight, then normalised in the group. */
function summedAdvantages(rewards, weights) {
  const sums = rewards.map((row) => row && row.reduce((sum, reward, k) => sum + reward * weights[k], 0));
  const moments = momentsOf(sums.filter((sum) => sum !== null));
  return sums.map((sum) => (sum === null ? 0 : (sum - moments.mean) / (deviationOf(moments) + EPS)));
}

/** Each reward normalised in the group, then summed by weight; `rounding` is what of the sums may be rounding errors. */
function decoupledSums(rewards, weights) {
  const judged = rewards.filter((row) => row !== null);
  const sums = rewards.map((row) => (row ? 0 : null));
  let rounding = 0;
  weights.forEach((weight, k) => {
    const column = judged.map((row) => row[k]);
    if (!(Math.max(...column) > Math.min(...column))) return;
    const moments = momentsOf(column);
    const deviation = deviationOf(moments) + EPS;
    rounding += (Math.abs(weight) * Number.EPSILON * Math.max(...column.map(Math.abs))) / deviation;
    rewards.forEach((row, j) => {
      if (row) sums[j] += (weight * (row[k] - moments.mean)) / deviation;
    });
  });
  return { sums, rounding };
}

/** c-GDPO: those sums, normalised over the batch. `rest` describes the sums of the batch's other groups as they were:
    count, mean, squares, and `telling`, whether they tell any rollouts apart. */
function decoupledAdvantages(rewards, weights, rest) {
  const { sums, rounding } = decoupledSums(rewards, weights);
  const judged = sums.filter((sum) => sum !== null);
  if (!rest.telling && judged.every((sum) => Math.abs(sum) <= ROUNDING * rounding)) return sums.map(() => 0);
  const batch = joinedMoments(momentsOf(judged), rest);
  return sums.map((sum) => (sum === null ? 0 : (sum - batch.mean) / (deviationOf(batch) + EPS)));
}

/** Both advantages of one rollout if two of its rewards were others, everything else as it was. */
function advantagesAt(group, weights, rollout, [first, second], [x, y]) {
  const rewards = group.rewards.map((row) => row && [...row]);
  rewards[rollout][first] = x;
  rewards[rollout][second] = y;
  return {
    grpo: summedAdvantages(rewards, weights)[rollout],
    decoupled: decoupledAdvantages(rewards, weights, group.rest)[rollout],
  };
}

/** Both over [0, 1]², `cells` + 1 values a side, the second reward's rows from 0 up. */
function sweptAdvantages(group, weights, rollout, pair, cells) {
  const grpo = [];
  const decoupled = [];
  for (let row = 0; row <= cells; row++) {
    for (let column = 0; column <= cells; column++) {
      const at = advantagesAt(group, weights, rollout, pair, [column / cells, row / cells]);
      grpo.push(at.grpo);
      decoupled.push(at.decoupled);
    }
  }
  return { grpo, decoupled };
}

/** The line on which swept values equal `level`, as SVG path data in a square of 100 whose second reward points up. */
function isoLine(values, cells, level) {
  const side = cells + 1;
  const scale = 100 / cells;
  const path = [];
  for (let row = 0; row < cells; row++) {
    for (let column = 0; column < cells; column++) {
      const corners = [[column, row], [column + 1, row], [column + 1, row + 1], [column, row + 1]];
      const crossings = [];
      corners.forEach(([x, y], at) => {
        const [nextX, nextY] = corners[(at + 1) % 4];
        const here = values[y * side + x] - level;
        const there = values[nextY * side + nextX] - level;
        if (here < 0 === there < 0) return;
        const part = here / (here - there);
        crossings.push([(x + part * (nextX - x)) * scale, 100 - (y + part * (nextY - y)) * scale]);
      });
      for (let at = 0; at + 1 < crossings.length; at += 2) {
        path.push(`M${crossings[at].map(rounded).join(" ")}L${crossings[at + 1].map(rounded).join(" ")}`);
      }
    }
  }
  return path.join("");
}

function rounded(number) {
  return number.toFixed(2);
}
