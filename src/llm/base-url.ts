/**
 * A base URL as an adapter wants it: without a slash at its end, and with `version` (such as `v1`) behind it unless its path holds a
 * version anywhere (`/v1`, `/api/paas/v4`, `/v1beta/openai`): the usual variables hold either form.
 */
export function versionedBaseUrl(baseUrl: string, version: string): string {
  const bare = baseUrl.trim().replace(/\/+$/, "");
  const path = URL.parse(bare)?.pathname ?? bare;
  return path.split("/").some((segment) => /^v\d+[a-z0-9]*$/.test(segment)) ? bare : `${bare}/${version}`;
}

/** A base URL for messages: without a password that may stand in it, and without the version at its end. */
export function shownUrl(baseUrl: string): string {
  const url = URL.parse(baseUrl);
  return url === null ? baseUrl : `${url.origin}${url.pathname.replace(/\/v\d+[a-z0-9]*$/, "")}`;
}
