// Why an arm was given a request: one plain sentence.

import { count, named, number, plural } from "./text.js";

const MOST_DIGITS = 6;

// Returns text and elements: the names in it are isolated.
export function why(pick, { among, instead_of: before }) {
  const words = pick.reason === "fairness" ? owed(pick) : chosen(pick, among);
  return before ? [...words, " It replaces ", named(before), "."] : words;
}

function owed({ arm, stood }) {
  const name = named(arm);
  if (!stood) return [name, " had to be served."];
  const claim = `entitled to ${apart(stood.entitled, stood.pulls)}, had ${count(stood.pulls)}.`;
  if (stood.is_owed) return [name, ` was owed a pull: ${claim}`];
  return [name, ` was served early, so that others can get all they are owed: ${claim}`];
}

function chosen({ arm, propensity, stood }, among) {
  if (among === 1) return ["Only ", named(arm), " could take it."];
  const from = among === null ? "" : ` among ${count(among)}`;
  return ["The learner chose ", named(arm), `${from}${likely(propensity)}${seen(stood)}.`];
}

function likely(propensity) {
  if (propensity === null) return ", at random";
  return propensity === 1 ? ", with certainty" : ` with probability ${number(propensity)}`;
}

function seen(stood) {
  if (!stood) return "";
  if (stood.mean === null) return "; it had no reward yet";
  return `; its mean was ${number(stood.mean)} over ${plural(stood.rewards, "reward")}`;
}

// An entitlement with as many digits as tell it from the pulls.
function apart(entitled, pulls) {
  for (let digits = 1; digits < MOST_DIGITS; digits += 1) {
    const text = format(entitled, digits);
    if (text !== format(pulls, digits) || entitled === pulls) return text;
  }
  return format(entitled, MOST_DIGITS);
}

const format = (value, digits) =>
  value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: digits });
