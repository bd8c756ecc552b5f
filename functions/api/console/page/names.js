/** Names that others choose: those of arguments, of fields and of groups in them. An object with such names has no
 *  prototype, and only what an object has itself is read by one. */

// Whatever misses that rule changes no object of the page. Nothing of others has been read before this line.
for (const each of [Object, Array, Function]) Object.freeze(Object.freeze(each).prototype);

/** An object of these entries, whatever they are called. */
export const recordOf = (entries = []) => Object.assign(Object.create(null), Object.fromEntries(entries));

/** What an object has itself by this name. */
export const ownOf = (object, name) => (object && Object.hasOwn(object, name) ? object[name] : undefined);
