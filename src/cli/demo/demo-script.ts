/** What the scripted model plays in the demo. Its expectations are checked against what the model is really sent: a script is a test. */
export const DEMO_SCRIPT = `pace: 8ms
steps:
  # The first night: a task with tools.
  - say: I look at the lamp first.
    call:
      - { tool: Read, input: { path: lamp.txt } }
  - say: It is dark. I light it, and start the book for tonight.
    call:
      - { tool: Edit, input: { path: lamp.txt, old_text: "lamp: out", new_text: "lamp: lit" } }
      - { tool: Write, input: { path: night.log, content: "dusk: lamp lit\\n" } }
      # Busy until the foghorn file is there: that is when the notification arrives.
      - { tool: Bash, input: { command: "until [ -e foghorn ]; do sleep 0.02; done; echo 'the horn is sounding'" } }
  - expect:
      last_contains: ["the horn is sounding", "[Notification from harbour]", "Fog bank"]
      results_before: "[Notification from harbour]"
      count: { "Fog bank": 1 }
    say: My calls are done, and the harbour reports fog. Into the book with it.
    call:
      - { tool: Bash, input: { command: "echo 'fog from the west' >> night.log" } }
  - say: The lamp is lit and the fog is in the book.
  # Later: nobody is watching, a program sends one line.
  - expect:
      last_contains: ["[Notification from tide-clock]"]
      count: { "High water": 1 }
    say: Nobody called, but the tide clock did.
    call:
      - { tool: Bash, input: { command: "echo 'high water' >> night.log" } }
  - say: High water is in the book.
  # The accident: killed in the middle of a call.
  - say: I ring the bell.
    call:
      - { tool: Bash, input: { command: "echo ding >> bell.txt; sleep 60" } }
  - expect:
      last_contains: ["Interrupted"]
    say: I was gone for a moment. I look at the bell before I touch it again.
    call:
      - { tool: Read, input: { path: bell.txt } }
  - expect:
      last_contains: ["ding"]
    say: It rang once. I do not ring it twice.
`;
