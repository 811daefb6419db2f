/* Offers: ours and nobody else's, for one principal, in one spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "channels/offer.h"

static const uint8_t secret[SECRET_BYTES] = "a secret of thirty-two bytes...", other_secret[SECRET_BYTES] = "another";

static void an_offer_is_known_by_who_minted_it(void **state)
{
	char offer[OFFER_BYTES + 1];
	for (int i = 0; i < 1000; i++) {
		offer_mint(secret, 7, offer);
		assert_int_equal(strlen(offer), OFFER_BYTES);
		assert_int_equal(strspn(offer, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
		                 OFFER_BYTES);
		assert_true(offer_verify(secret, 7, text_of(offer)));
	}
}

static void an_offer_belongs_to_one_principal_and_one_service(void **state)
{
	char offer[OFFER_BYTES + 1];
	offer_mint(secret, 7, offer);
	assert_false(offer_verify(secret, 8, text_of(offer)));
	assert_false(offer_verify(other_secret, 7, text_of(offer)));
}

/* Whatever one character is changed to. */
static void no_other_spelling_is_an_offer(void **state)
{
	char offer[OFFER_BYTES + 2];
	offer_mint(secret, 7, offer);
	for (size_t i = 0; i < OFFER_BYTES; i++) {
		char was = offer[i];
		for (int c = 0; c < 256; c++) {
			offer[i] = (char)c;
			assert_int_equal(offer_verify(secret, 7, (struct text){offer, OFFER_BYTES}), (char)c == was);
		}
		offer[i] = was;
	}
	assert_false(offer_verify(secret, 7, (struct text){offer, OFFER_BYTES - 1}));
	offer[OFFER_BYTES] = 'A';
	assert_false(offer_verify(secret, 7, (struct text){offer, OFFER_BYTES + 1}));
	assert_false(offer_verify(secret, 7, (struct text){NULL, 0}));
}

static void two_offers_are_never_the_same(void **state)
{
	char one[OFFER_BYTES + 1], two[OFFER_BYTES + 1];
	offer_mint(secret, 7, one);
	offer_mint(secret, 7, two);
	assert_string_not_equal(one, two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_offer_is_known_by_who_minted_it),
		cmocka_unit_test(an_offer_belongs_to_one_principal_and_one_service),
		cmocka_unit_test(no_other_spelling_is_an_offer),
		cmocka_unit_test(two_offers_are_never_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
