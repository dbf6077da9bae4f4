import { AppError } from "../base/errors.ts";

/** A template, cut into what stands in it literally and what is filled in. */
export type TemplatePart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "placeholder"; readonly name: string };

/** Which placeholders a template may and must name, and what to call the template in an error. */
export interface TemplateRules {
  readonly source: string;
  readonly allowed: readonly string[];
  readonly required: readonly string[];
}

/**
 * Reads a template: `{name}` is filled in, `{{` and `}}` are braces. Strict: an unknown or missing placeholder and a lone brace are
 * `configuration` errors that name the file, the line and the placeholder, so that a typing error is never sent to a model.
 */
export function parseTemplate(text: string, rules: TemplateRules): readonly TemplatePart[] {
  const parts: TemplatePart[] = [];
  let literal = "";
  let position = 0;
  const fail = (what: string, hint: string): never => {
    const line = text.slice(0, position).split("\n").length;
    throw new AppError("configuration", `${rules.source}, line ${line}: ${what}`, { hint });
  };
  while (position < text.length) {
    const character = text.charAt(position);
    if (character !== "{" && character !== "}") {
      const next = text.slice(position).search(/[{}]/);
      const end = next === -1 ? text.length : position + next;
      literal += text.slice(position, end);
      position = end;
    } else if (text.charAt(position + 1) === character) {
      literal += character;
      position += 2;
    } else {
      const match = /^\{([^{}\n]{1,64})\}/.exec(text.slice(position, position + 70));
      const name = match?.[1];
      if (match === null || name === undefined)
        return fail(`a lone '${character}'`, `For a brace itself write '${character}${character}'.`);
      if (!rules.allowed.includes(name)) return fail(`unknown placeholder {${name}}`, whatIsAllowed(rules.allowed));
      if (literal !== "") parts.push({ kind: "text", text: literal });
      literal = "";
      parts.push({ kind: "placeholder", name });
      position += match[0].length;
    }
  }
  if (literal !== "") parts.push({ kind: "text", text: literal });
  for (const name of rules.required) {
    if (!parts.some((part) => part.kind === "placeholder" && part.name === name)) {
      throw new AppError("configuration", `${rules.source}: the placeholder {${name}} is missing`, {
        hint: whatIsAllowed(rules.allowed),
      });
    }
  }
  return parts;
}

function whatIsAllowed(allowed: readonly string[]): string {
  return `Known here: ${allowed.map((name) => `{${name}}`).join(", ")}; for a brace itself write '{{' or '}}'.`;
}
