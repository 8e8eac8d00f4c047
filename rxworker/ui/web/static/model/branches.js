// Branches: the conversations that begin alike and differ from a message of the user on, since it was edited or answered again. Pure.
//
// The server names the message that a conversation replaces by the conversation that had it first, so all branches of a message name the same place. A conversation
// has copies of the messages before the one that it replaces: their branches are those of the conversation that they come from.

export class Branches {
  // `runs`: the list of runs.
  constructor(runs) {
    this.places = new Map(); // the places that conversations replace
    this.groups = new Map(); // the branches of a place, by the same key: [conversation, when it began]
    this.newest = new Map(); // the newest run of a conversation
    for (const run of [...runs].sort((a, b) => a.started - b.started)) {
      const { conversation, branch } = run, isKnown = this.newest.has(conversation);
      this.newest.set(conversation, run.id);
      if (isKnown || !branch) continue;
      this.places.set(conversation, branch);
      const key = keyOf(branch.conversation, branch.message);
      if (this.groups.has(key)) this.groups.get(key).push(conversation);
      else this.groups.set(key, [conversation]);
    }
  }

  // The branches of a message of the user, by its number, from 0: which of how many a conversation shows, and the newest runs of the ones before and after; null if there is one only.
  of(conversation, number) {
    let own = conversation, place = this.places.get(own);
    while (place && number < place.message) {
      own = place.conversation;
      place = this.places.get(own);
    }
    const first = place?.message === number ? place.conversation : own;
    const others = this.groups.get(keyOf(first, number)) ?? [];
    const every = first === own || this.newest.has(first) ? [first, ...others] : others, at = every.indexOf(own);
    if (every.length < 2) return null;
    const run = (n) => this.newest.get(every[n]) ?? null;
    return { at: at + 1, count: every.length, before: run(at - 1), after: run(at + 1) };
  }

  // The conversation that a conversation comes from, over all branches.
  root(conversation) {
    let root = conversation;
    while (this.places.has(root)) root = this.places.get(root).conversation;
    return root;
  }
}

const keyOf = (conversation, message) => `${message} ${conversation}`;
