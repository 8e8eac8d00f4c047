// What both pages share: the frame with its links, and the tool of the page.
import "./style.css";

export function Frame({ title, children, beside }) {
  return (
    <>
      <header>
        <span className="mark" />
        <h1>Planner</h1>
        <nav>
          {[["useChat", "chat.html"], ["AG-UI", "agui.html"]].map(([name, page]) => (
            <a key={name} href={page} aria-current={name === title ? "page" : undefined}>{name}</a>
          ))}
        </nav>
      </header>
      <main>{children}</main>
      <aside>{beside}</aside>
    </>
  );
}

export function Empty() {
  return (
    <div className="empty">
      <h2>What shall we plan?</h2>
      <p>A launch, a journey, a move. The plan appears beside the conversation, and no mail is sent before you have approved it.</p>
    </div>
  );
}

// `state`: "running", "waiting", "done" or "failed".
export function Call({ name, input, output, state, children }) {
  const word = { running: "running", waiting: "waits for you", done: "done", failed: "failed" }[state];
  return (
    <div className="call" data-state={state}>
      <div className="call-head"><b>{name}</b><span>{word}</span></div>
      <pre>{input}{output && `\n→ ${output}`}</pre>
      {children}
    </div>
  );
}

export function Decision({ text, decide }) {
  return (
    <div className="decide">
      <span>{text}</span>
      <button type="button" onClick={() => decide(false)}>Deny</button>
      <button type="button" className="primary" onClick={() => decide(true)}>Approve</button>
    </div>
  );
}

export function Plan({ steps = [] }) {
  return (
    <section>
      <h2>Plan</h2>
      <ul id="steps">{steps.map((step, n) => <li key={n}>{step}</li>)}</ul>
      {steps.length === 0 && <p className="quiet">No steps yet</p>}
    </section>
  );
}

// Tools of the page paint it.
export function paint(color) {
  document.documentElement.style.setProperty("--accent", color);
}
