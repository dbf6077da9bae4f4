/** `text` as one word of a POSIX shell, so that a command in a hint can be copied; quoted only where it has to be. */
export function shellWord(text: string): string {
  if (/^[\p{L}\p{N}._+:@%/-]+$/u.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}
